/*
 * arena — computes the offsets of tensors in an arena before the arena is allocated. Header only.
 *
 *     struct arena_layout layout = {0};
 *     uint64_t normed = arena_take(&layout, rows * width, ops_compute_bytes(ops));
 *     ... allocate layout.bytes ... arena_at(memory, normed)
 */
#ifndef MILLRACE_TRAINER_OPS_ARENA_H
#define MILLRACE_TRAINER_OPS_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN_BYTES = 256 };

/* Sums and products saturate at this size. model_open rejects it. */
#define ARENA_BYTES_MAX (UINT64_C(1) << 56)

struct arena_layout {
    uint64_t bytes;
};

/* Returns the tensor's offset in bytes. */
static inline uint64_t arena_take(struct arena_layout *layout, uint64_t elements,
                                  size_t element_bytes)
{
    uint64_t bytes, offset = layout->bytes;
    if (__builtin_mul_overflow(elements, (uint64_t)element_bytes, &bytes) ||
        bytes > ARENA_BYTES_MAX - offset) {
        layout->bytes = ARENA_BYTES_MAX;
        return offset;
    }
    layout->bytes =
        offset + (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    return offset;
}

static inline void *arena_at(void *arena, uint64_t offset_bytes)
{
    return (char *)arena + offset_bytes;
}

#endif
