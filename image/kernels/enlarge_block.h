/*
 * enlarge_block — inner loops of enlarge_row, by instruction set.
 */
#ifndef MILLRACE_IMAGE_KERNELS_ENLARGE_BLOCK_H
#define MILLRACE_IMAGE_KERNELS_ENLARGE_BLOCK_H

#include "image/kernels/enlarge.h"

enum { ENLARGE_LANE_BYTES = 16 };

struct enlarge_blocks {
    uint32_t block_bytes, window_bytes;
    void (*run)(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target);
};

#ifdef __aarch64__
extern const struct enlarge_blocks enlarge_blocks_neon;
#endif
#ifdef __x86_64__
extern const struct enlarge_blocks enlarge_blocks_avx2, enlarge_blocks_avx512;
#endif

/* Returns the first output byte of a block. */
static inline uint32_t enlarge_block_begin(const struct enlarge_plan *plan, uint32_t block,
                                           uint32_t block_bytes)
{
    return block + 1 < plan->blocks ? block * block_bytes : plan->row_bytes - block_bytes;
}

#endif
