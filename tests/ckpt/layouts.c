/*
 * layouts — see layouts.h.
 */
#include "tests/ckpt/layouts.h"

#include <stdlib.h>
#include <string.h>

static uint64_t cut(uint64_t extent, uint64_t part, uint64_t parts)
{
    return extent * part / parts;
}

static void split(struct ckpt_tensor *tensor, uint32_t dimension, uint64_t part, uint64_t parts)
{
    tensor->replicated = false;
    tensor->start[dimension] = cut(tensor->shape[dimension], part, parts);
    tensor->extent[dimension] =
        cut(tensor->shape[dimension], part + 1, parts) - tensor->start[dimension];
}

void layouts_take_box(struct ckpt_tensor *tensor, const struct ckpt_tensor *global)
{
    uint64_t element = dtype_bytes(tensor->dtype), bytes = array_bytes(tensor);
    char *data = calloc(1, bytes + 1);
    for (uint64_t i = 0; i < bytes / element; i++) {
        uint64_t rest = i, index = 0, at[DTYPE_RANK_MAX];
        for (uint32_t d = tensor->rank; d-- > 0; rest /= tensor->extent[d])
            at[d] = tensor->start[d] + rest % tensor->extent[d];
        for (uint32_t d = 0; d < tensor->rank; d++)
            index = index * tensor->shape[d] + at[d];
        memcpy(data + i * element, (const char *)global->data + index * element, element);
    }
    tensor->data = data;
}

void layouts_take(struct ckpt_tensor *tensors, const struct arrays *global, int rank, int ranks)
{
    uint64_t r = (uint64_t)rank, n = (uint64_t)ranks;
    memcpy(tensors, global->tensors, global->count * sizeof *tensors);
    split(&tensors[0], 0, r, n);
    split(&tensors[1], 1, r, n);
    split(&tensors[2], 2, r % 2, n > 1 ? 2 : 1);
    if (n > 1) /* each half of the last dimension is split along the first */
        split(&tensors[2], 0, r / 2, r % 2 == 0 ? (n + 1) / 2 : n / 2);
    split(&tensors[3], 0, r, n);
    for (uint64_t i = 0; i < global->count; i++)
        layouts_take_box(&tensors[i], &global->tensors[i]);
}

void layouts_free(struct ckpt_tensor *tensors, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        free(tensors[i].data);
}
