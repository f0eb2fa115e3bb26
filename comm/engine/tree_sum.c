/*
 * tree_sum — see tree_sum.h.
 *
 * At each level, leaf i adds leaf i + width if i is a multiple of 2 * width. This order is that of
 * T: the number of leaves in the left operand is a power of two, and an unpaired operand moves up
 * unchanged.
 */
#include "comm/engine/tree_sum.h"

#include <assert.h>

static void add_f32(float *restrict sum, const float *restrict addend, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        sum[i] += addend[i];
}

static void add_f64(double *restrict sum, const double *restrict addend, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        sum[i] += addend[i];
}

void tree_sum(void *leaves, size_t count, size_t stride_bytes, size_t elements, enum dtype dtype)
{
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i + width < count; i += 2 * width) {
            char *sum = (char *)leaves + i * stride_bytes, *addend = sum + width * stride_bytes;
            if (dtype == DTYPE_F32)
                add_f32((void *)sum, (void *)addend, elements);
            else
                add_f64((void *)sum, (void *)addend, elements);
        }
    }
}
