/*
 * layout — where tensors lie in an arena, computed before there is memory. Header only.
 *
 *     struct layout layout = {0};
 *     uint64_t normed = layout_take(&layout, rows * width, ops_compute_bytes(ops));
 *     ... memory of layout.bytes ... layout_at(memory, normed)
 */
#ifndef MILLRACE_TRAINER_LAYOUT_H
#define MILLRACE_TRAINER_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_ALIGN_BYTES = 256 };

/* More is refused when a model is opened; sums and products saturate here, so that no size wraps around on its way. */
#define LAYOUT_BYTES_MAX (UINT64_C(1) << 56)

struct layout {
    uint64_t bytes; /* LAYOUT_BYTES_MAX: too large */
};

/* The offset of a tensor, in bytes. */
static inline uint64_t layout_take(struct layout *layout, uint64_t elements, size_t element_bytes)
{
    uint64_t bytes, offset = layout->bytes;
    if (__builtin_mul_overflow(elements, (uint64_t)element_bytes, &bytes) ||
        bytes > LAYOUT_BYTES_MAX - offset) {
        layout->bytes = LAYOUT_BYTES_MAX;
        return offset;
    }
    layout->bytes = offset + (bytes + LAYOUT_ALIGN_BYTES - 1) / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES;
    return offset;
}

static inline void *layout_at(void *arena, uint64_t offset_bytes)
{
    return (char *)arena + offset_bytes;
}

#endif
