/*
 * enlarge — the filter's pass along the rows, for at most two taps per output: enlargements.
 *
 * resample_columns filters along rows only after a transposition. With two taps, byte shuffles
 * bring the samples of many outputs into place instead. The bytes are the same (resample.h).
 */
#ifndef MILLRACE_IMAGE_KERNELS_ENLARGE_H
#define MILLRACE_IMAGE_KERNELS_ENLARGE_H

#include "image/kernels/resample.h"

enum {
    ENLARGE_TAPS_MAX = 2,
    ENLARGE_CHANNELS_MAX = 3,
    ENLARGE_SLACK_BYTES = 64 + ENLARGE_CHANNELS_MAX, /* read after the samples of a row */
};

/* Outputs of one row in blocks, each as long as a vector; the last block overlaps the one before.
 * A block reads windows of the row. Memory is reused between plans. Zero-initialize it. */
struct enlarge_plan {
    bool fits; /* else enlarge_row can't be used */
    enum image_kernels kernels;
    uint32_t channels, row_bytes, blocks;
    /* By output byte: its first tap, as a byte of the source row, and the second coefficient. */
    uint32_t *first;
    int16_t *second_coefficient;
    /* The same for blocks. */
    uint32_t *window;  /* by window: its first source byte */
    uint8_t *index;    /* by output byte of the blocks: its first tap in the window */
    int16_t *factor;   /* the second coefficients; a block begins with its lanes' lower halves */
    uint32_t capacity; /* in output bytes */
};

/* Plans rows of `channels` interleaved samples per pixel. plan->fits: the plan has at most
 * ENLARGE_TAPS_MAX taps, and its blocks fit in windows; mirrored rows of several channels may not
 * if they are hardly enlarged. The processor must have the kernels. -ENOMEM. */
int enlarge_plan_init(struct enlarge_plan *plan, enum image_kernels kernels,
                      const struct resample_plan *columns, uint32_t channels, struct err *err);
void enlarge_plan_deinit(struct enlarge_plan *plan);

/* source: the row's sample at the plan's source_first, with ENLARGE_SLACK_BYTES readable after
 * source_end. Writes channels * count bytes. All kernels give the same bytes. */
void enlarge_row(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target);

#endif
