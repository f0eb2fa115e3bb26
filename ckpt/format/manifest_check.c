#include "ckpt/format/box.h"
#include "ckpt/format/manifest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int tensor_error(const char *path, struct err *err, const struct manifest_tensor *tensor,
                        const char *problem)
{
    err_set(err, -EBADMSG, "manifest: tensor \"%.100s\": %s", tensor->name, problem);
    err_at(err, path, ERR_NO_OFFSET);
    return -EBADMSG;
}

uint64_t manifest_tensor_elements(const struct manifest_tensor *tensor)
{
    uint64_t elements = 0;
    int status = box_shape_volume(tensor->shape, tensor->rank, &elements);
    assert(!status);
    (void)status;
    return elements;
}

int manifest_compare_names(const void *a, const void *b)
{
    return strcmp(((const struct manifest_tensor *)a)->name,
                  ((const struct manifest_tensor *)b)->name);
}

static int compare_starts(const void *a, const void *b)
{
    const struct manifest_chunk *x = a, *y = b;
    for (uint32_t d = 0; d < DTYPE_RANK_MAX; d++) /* zero beyond the rank */
        if (x->start[d] != y->start[d])
            return x->start[d] < y->start[d] ? -1 : 1;
    return 0;
}

static int check_chunk(const struct manifest *manifest, const struct manifest_tensor *tensor,
                       const struct manifest_chunk *chunk, const char *path, uint64_t *ret_elements,
                       struct err *err)
{
    uint64_t bytes, end;
    struct box box = box_make(chunk->start, chunk->extent, tensor->rank);
    if (box_check(&box, tensor->shape))
        return tensor_error(path, err, tensor, "a chunk is not within the shape");
    if (box_shape_volume(chunk->extent, tensor->rank, ret_elements) ||
        box_shape_bytes(chunk->extent, tensor->rank, tensor->dtype, &bytes) ||
        __builtin_add_overflow(chunk->offset_bytes, bytes, &end) ||
        chunk->file >= manifest->files_count || end > manifest->files[chunk->file].size_bytes)
        return tensor_error(path, err, tensor, "a chunk is not within its file");
    return 0;
}

/* Chunks are sorted by start. So among later chunks, a chunk can overlap only those that begin
 * before its end in the first dimension. */
static bool chunks_overlap(const struct manifest_tensor *tensor)
{
    struct box overlap;
    for (uint64_t i = 0; i < tensor->chunks_count; i++) {
        const struct manifest_chunk *a = &tensor->chunks[i];
        struct box box = box_make(a->start, a->extent, tensor->rank);
        for (uint64_t k = i + 1; k < tensor->chunks_count; k++) {
            const struct manifest_chunk *b = &tensor->chunks[k];
            if (tensor->rank > 0 && b->start[0] >= a->start[0] + a->extent[0])
                break;
            struct box other = box_make(b->start, b->extent, tensor->rank);
            if (box_intersect(&box, &other, &overlap))
                return true;
        }
    }
    return false;
}

static int check_tensor(struct manifest *manifest, struct manifest_tensor *tensor, const char *path,
                        struct err *err)
{
    uint64_t elements, bytes, sum = 0;
    if (box_shape_volume(tensor->shape, tensor->rank, &elements) ||
        box_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &bytes))
        return tensor_error(path, err, tensor, "the shape's product overflows");
    qsort(tensor->chunks, tensor->chunks_count, sizeof *tensor->chunks, compare_starts);
    for (uint64_t i = 0; i < tensor->chunks_count; i++) {
        uint64_t part;
        int status = check_chunk(manifest, tensor, &tensor->chunks[i], path, &part, err);
        if (status)
            return status;
        if (part == 0 && elements > 0)
            return tensor_error(path, err, tensor, "a chunk has no elements");
        sum += part;
        if (sum > elements)
            return tensor_error(path, err, tensor, "chunks overlap");
    }
    /* Disjoint chunks within the shape cover it if their sizes add up to its size. */
    if (chunks_overlap(tensor))
        return tensor_error(path, err, tensor, "chunks overlap");
    if (sum != elements) {
        tensor_error(path, err, tensor, "chunks do not cover all elements");
        err_expected(err, "%" PRIu64 " elements", elements);
        err_found(err, "%" PRIu64, sum);
        return -EBADMSG;
    }
    return 0;
}

int manifest_check_tensors(struct manifest *manifest, const char *path, struct err *err)
{
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        struct manifest_tensor *tensor = &manifest->tensors[i];
        if (i > 0 && manifest_compare_names(tensor - 1, tensor) >= 0)
            return tensor_error(path, err, tensor,
                                "tensors are not sorted by name, or a name is repeated");
        int status = check_tensor(manifest, tensor, path, err);
        if (status)
            return status;
    }
    return 0;
}
