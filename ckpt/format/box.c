#include "ckpt/format/box.h"

#include "base/bytes.h"

#include <errno.h>

int box_shape_volume(const uint64_t *shape, uint32_t rank, uint64_t *ret_elements)
{
    uint64_t elements = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (__builtin_mul_overflow(elements, shape[d], &elements))
            return -EOVERFLOW;
    *ret_elements = elements;
    return 0;
}

int box_shape_bytes(const uint64_t *shape, uint32_t rank, enum dtype dtype, uint64_t *ret_bytes)
{
    uint64_t bytes;
    int status = box_shape_volume(shape, rank, &bytes);
    if (status || __builtin_mul_overflow(bytes, dtype_bytes(dtype), &bytes))
        return -EOVERFLOW;
    *ret_bytes = bytes;
    return 0;
}

int box_check(const struct box *box, const uint64_t *shape)
{
    for (uint32_t d = 0; d < box->rank; d++) {
        uint64_t end;
        if (__builtin_add_overflow(box->start[d], box->extent[d], &end))
            return -EOVERFLOW;
        if (end > shape[d])
            return -ERANGE;
    }
    return 0;
}

bool box_intersect(const struct box *a, const struct box *b, struct box *ret_overlap)
{
    struct box overlap = {.rank = a->rank};
    for (uint32_t d = 0; d < a->rank; d++) {
        uint64_t start = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
        uint64_t end = bytes_min(a->start[d] + a->extent[d], b->start[d] + b->extent[d]);
        if (start >= end)
            return false;
        overlap.start[d] = start;
        overlap.extent[d] = end - start;
    }
    *ret_overlap = overlap;
    return true;
}

/* Compares fields, since padding and dimensions beyond rank are undefined. */
bool box_equals(const struct box *a, const struct box *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t d = 0; d < a->rank && same; d++)
        same = a->start[d] == b->start[d] && a->extent[d] == b->extent[d];
    return same;
}

struct box box_from_shape(const uint64_t *shape, uint32_t rank)
{
    struct box box = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++)
        box.extent[d] = shape[d];
    return box;
}

struct box box_make(const uint64_t *start, const uint64_t *extent, uint32_t rank)
{
    struct box box = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        box.start[d] = start[d];
        box.extent[d] = extent[d];
    }
    return box;
}

struct box box_from_range(const uint64_t *shape, uint32_t rank, uint64_t begin, uint64_t end,
                          uint64_t *ret_elements)
{
    /* [d + 1]: elements per step along d; [0]: elements in the array */
    uint64_t stride[DTYPE_RANK_MAX + 1];
    stride[rank] = 1;
    for (uint32_t d = rank; d > 0; d--)
        stride[d - 1] = stride[d] * shape[d - 1];
    /* The outermost dimension along which begin is aligned and a whole step fits. The last
     * dimension always qualifies: its steps are single elements. */
    uint32_t along = 0;
    while (along < rank && (begin % stride[along + 1] != 0 || end - begin < stride[along + 1]))
        along++;
    struct box box = {.rank = rank};
    uint64_t rest = begin;
    for (uint32_t d = 0; d < rank; d++) {
        box.start[d] = rest / stride[d + 1];
        rest %= stride[d + 1];
        box.extent[d] = d < along ? 1 : shape[d];
    }
    uint64_t elements = 1;
    if (along < rank) {
        box.extent[along] =
            bytes_min(shape[along] - box.start[along], (end - begin) / stride[along + 1]);
        elements = box.extent[along] * stride[along + 1];
    }
    *ret_elements = elements;
    return box;
}

bool box_runs_init(struct box_runs *runs, const struct box *source, const struct box *target,
                   enum dtype dtype)
{
    struct box overlap;
    if (!box_intersect(source, target, &overlap))
        return false;
    /* The overlap spans both boxes from dimension `whole` on, so a step along the previous
     * dimension is contiguous. */
    uint32_t whole = source->rank;
    while (whole > 0 && overlap.extent[whole - 1] == source->extent[whole - 1] &&
           overlap.extent[whole - 1] == target->extent[whole - 1])
        whole--;
    uint32_t walked = whole > 0 ? whole - 1 : 0;
    *runs = (struct box_runs){.rank = walked, .run_bytes = dtype_bytes(dtype), .runs_count = 1};
    for (uint32_t d = walked; d < source->rank; d++)
        runs->run_bytes *= overlap.extent[d];
    uint64_t source_stride = dtype_bytes(dtype), target_stride = dtype_bytes(dtype);
    for (uint32_t d = source->rank; d-- > 0;) {
        runs->source += (overlap.start[d] - source->start[d]) * source_stride;
        runs->target += (overlap.start[d] - target->start[d]) * target_stride;
        if (d < walked) {
            runs->count[d] = overlap.extent[d];
            runs->source_stride[d] = source_stride;
            runs->target_stride[d] = target_stride;
            runs->runs_count *= overlap.extent[d];
        }
        source_stride *= source->extent[d];
        target_stride *= target->extent[d];
    }
    return true;
}

struct box_runs_cursor box_runs_first(const struct box_runs *runs)
{
    return (struct box_runs_cursor){
        .source = runs->source, .target = runs->target, .left = runs->runs_count};
}

void box_runs_next(const struct box_runs *runs, struct box_runs_cursor *cursor)
{
    cursor->left--;
    for (uint32_t d = runs->rank; d-- > 0;) {
        cursor->source += runs->source_stride[d];
        cursor->target += runs->target_stride[d];
        if (++cursor->index[d] < runs->count[d])
            return;
        cursor->source -= runs->count[d] * runs->source_stride[d];
        cursor->target -= runs->count[d] * runs->target_stride[d];
        cursor->index[d] = 0;
    }
}
