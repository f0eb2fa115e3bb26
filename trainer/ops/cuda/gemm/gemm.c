/*
 * gemm — see gemm.h.
 */
#include "trainer/ops/cuda/gemm/gemm.h"

#include "base/hash.h"
#include "trainer/ops/cuda/columns.h"
#include "trainer/ops/cuda/gemm/cublaslt.h"

#include "device/device_cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    TILE = 128,         /* approximate output tile of a block */
    TILES_WANTED = 128, /* enough to occupy a device */
    PARTS_MAX = 16,
    PART_LEAST = 2048, /* minimum inner dimension of a part */
};

/* A planned shape, with its number of parts. */
struct entry {
    struct gemm_shape shape;
    uint32_t parts;
    struct cublaslt_plan *plan;
    uint32_t id;
    struct entry *next;
};

struct cuda_gemm {
    struct device *device;
    cudaStream_t stream;
    enum dtype compute;
    struct cublaslt *lt;
    void *workspace;
    float *partials; /* of the largest product that is cut */
    uint64_t partials_bytes;
    struct entry *entries;
};

int cuda_gemm_open(struct device *device, cudaStream_t stream, enum dtype compute,
                   struct cuda_gemm **ret_gemm, struct err *err)
{
    struct cuda_gemm *gemm = calloc(1, sizeof *gemm);
    if (!gemm)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    gemm->device = device;
    gemm->stream = stream;
    gemm->compute = compute;
    int status = device->ops->mem_alloc(device, MEM_DEVICE, CUDA_GEMM_WORKSPACE_BYTES,
                                        &gemm->workspace, err);
    if (!status)
        status = cublaslt_open(stream, gemm->workspace, CUDA_GEMM_WORKSPACE_BYTES, &gemm->lt, err);
    if (status) {
        cuda_gemm_close(gemm);
        return status;
    }
    *ret_gemm = gemm;
    return 0;
}

void cuda_gemm_close(struct cuda_gemm *gemm)
{
    if (!gemm)
        return;
    for (struct entry *entry = gemm->entries, *next; entry; entry = next) {
        next = entry->next;
        cublaslt_plan_free(entry->plan);
        free(entry);
    }
    cublaslt_close(gemm->lt);
    gemm->device->ops->mem_free(gemm->device, MEM_DEVICE, gemm->partials, gemm->partials_bytes);
    gemm->device->ops->mem_free(gemm->device, MEM_DEVICE, gemm->workspace,
                                CUDA_GEMM_WORKSPACE_BYTES);
    free(gemm);
}

uint32_t cuda_gemm_parts(const struct gemm_shape *shape)
{
    uint64_t tiles = ((shape->m + TILE - 1) / TILE) * ((shape->n + TILE - 1) / TILE);
    uint32_t parts = 1;
    if (!shape->trans_a || shape->trans_b || !shape->master_output || shape->bias)
        return 1; /* not the gradient of a weight */
    while (parts < PARTS_MAX && tiles * parts * 2 <= TILES_WANTED && shape->k % (parts * 2) == 0 &&
           shape->k / (parts * 2) >= PART_LEAST)
        parts *= 2;
    return parts;
}

uint64_t cuda_gemm_partials_bytes(const struct gemm_shape *shape)
{
    uint32_t parts = cuda_gemm_parts(shape);
    return parts > 1 ? parts * shape->m * shape->n * sizeof(float) : 0;
}

static bool is_equal(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b && a->bias == b->bias && a->accumulate == b->accumulate &&
           a->master_output == b->master_output;
}

static int reserve_partials(struct cuda_gemm *gemm, uint64_t bytes, struct err *err)
{
    if (bytes <= gemm->partials_bytes)
        return 0;
    struct device *device = gemm->device;
    void *memory;
    int status = device->ops->mem_alloc(device, MEM_DEVICE, bytes, &memory, err);
    if (status)
        return status;
    device->ops->mem_free(device, MEM_DEVICE, gemm->partials, gemm->partials_bytes);
    gemm->partials = memory;
    gemm->partials_bytes = bytes;
    return 0;
}

/* The product of all parts in one batch, or of the whole. */
static struct cublaslt_product product_of(const struct cuda_gemm *gemm,
                                          const struct gemm_shape *shape, uint32_t parts)
{
    uint64_t k = shape->k / parts;
    return (struct cublaslt_product){
        .m = shape->m,
        .n = shape->n,
        .k = k,
        .trans_a = shape->trans_a,
        .trans_b = shape->trans_b,
        .bias = shape->bias,
        .accumulate = shape->accumulate && parts == 1,
        .input = gemm->compute,
        .output = shape->master_output ? DTYPE_F32 : gemm->compute,
        .batch = parts,
        .stride_a = k * shape->m,
        .stride_b = k * shape->n,
        .stride_c = shape->m * shape->n,
    };
}

static int add_entry(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                     struct entry **ret_entry, struct err *err)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    entry->shape = *shape;
    entry->parts = cuda_gemm_parts(shape);
    const struct cublaslt_product product = product_of(gemm, shape, entry->parts);
    int status = cublaslt_plan(gemm->lt, &product, &entry->plan, &entry->id, err);
    if (!status)
        status = reserve_partials(gemm, cuda_gemm_partials_bytes(shape), err);
    if (status) {
        cublaslt_plan_free(entry->plan);
        free(entry);
        return status;
    }
    entry->next = gemm->entries;
    gemm->entries = entry;
    *ret_entry = entry;
    return 0;
}

int cuda_gemm_plan(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                   struct gemm_plan *ret_plan, struct err *err)
{
    struct entry *entry = gemm->entries;
    while (entry && !is_equal(&entry->shape, shape))
        entry = entry->next;
    int status = entry ? 0 : add_entry(gemm, shape, &entry, err);
    if (!status)
        *ret_plan = (struct gemm_plan){*shape, entry, entry->id};
    return status;
}

int cuda_gemm_run(struct cuda_gemm *gemm, const struct gemm_plan *plan, const void *a,
                  const void *b, const void *bias, void *c, struct err *err)
{
    const struct entry *entry = plan->algorithm;
    if (entry->parts == 1)
        return cublaslt_run(gemm->lt, entry->plan, a, b, bias, c, err);
    int status = cublaslt_run(gemm->lt, entry->plan, a, b, NULL, gemm->partials, err);
    uint64_t elements = plan->shape.m * plan->shape.n;
    if (status)
        return status;
    cudaError_t code = cuda_columns_fold(c, gemm->partials, entry->parts, elements, elements,
                                         plan->shape.accumulate, gemm->stream);
    return device_cuda_status(gemm->device, (int)code, "adding the parts of a product", err);
}

void cuda_gemm_describe(const struct cuda_gemm *gemm, struct str *out)
{
    uint64_t ids = 0; /* the sum does not depend on the planning order */
    for (const struct entry *entry = gemm->entries; entry; entry = entry->next) {
        const uint64_t parts[] = {entry->shape.m, entry->shape.n, entry->shape.k, entry->parts,
                                  entry->id};
        ids += hash_64(parts, sizeof parts);
    }
    cublaslt_describe(gemm->lt, out);
    str_add_format(out, " algorithms %016llx", (unsigned long long)ids);
}
