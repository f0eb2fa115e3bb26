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
    TILE = 128,      /* approximate side of a block's output tile */
    TILES_MIN = 128, /* enough to occupy a device */
    PARTS_MAX = 16,
    PART_DEPTH_MIN = 2048,
};

struct planned_shape {
    struct gemm_shape shape;
    uint32_t parts;
    struct cublaslt_plan *plan;
    uint32_t id;
    struct planned_shape *next;
};

struct cuda_gemm {
    struct device *device;
    cudaStream_t stream;
    enum dtype compute;
    struct cublaslt *lt;
    void *workspace;
    float *partials; /* of the largest split product */
    uint64_t partials_bytes;
    struct planned_shape *planned_shapes;
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
    for (struct planned_shape *planned = gemm->planned_shapes, *next; planned; planned = next) {
        next = planned->next;
        cublaslt_plan_free(planned->plan);
        free(planned);
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
    while (parts < PARTS_MAX && tiles * parts * 2 <= TILES_MIN && shape->k % (parts * 2) == 0 &&
           shape->k / (parts * 2) >= PART_DEPTH_MIN)
        parts *= 2;
    return parts;
}

uint64_t cuda_gemm_partials_bytes(const struct gemm_shape *shape)
{
    uint32_t parts = cuda_gemm_parts(shape);
    return parts > 1 ? parts * shape->m * shape->n * sizeof(float) : 0;
}

static bool shapes_equal(const struct gemm_shape *a, const struct gemm_shape *b)
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

/* All parts in one batch, or the whole product. */
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

static int add_plan(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                    struct planned_shape **ret_planned, struct err *err)
{
    struct planned_shape *planned = calloc(1, sizeof *planned);
    if (!planned)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    planned->shape = *shape;
    planned->parts = cuda_gemm_parts(shape);
    const struct cublaslt_product product = product_of(gemm, shape, planned->parts);
    int status = cublaslt_plan(gemm->lt, &product, &planned->plan, &planned->id, err);
    if (!status)
        status = reserve_partials(gemm, cuda_gemm_partials_bytes(shape), err);
    if (status) {
        cublaslt_plan_free(planned->plan);
        free(planned);
        return status;
    }
    planned->next = gemm->planned_shapes;
    gemm->planned_shapes = planned;
    *ret_planned = planned;
    return 0;
}

int cuda_gemm_plan(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                   struct gemm_plan *ret_plan, struct err *err)
{
    struct planned_shape *planned = gemm->planned_shapes;
    while (planned && !shapes_equal(&planned->shape, shape))
        planned = planned->next;
    int status = planned ? 0 : add_plan(gemm, shape, &planned, err);
    if (!status)
        *ret_plan = (struct gemm_plan){*shape, planned, planned->id};
    return status;
}

int cuda_gemm_run(struct cuda_gemm *gemm, const struct gemm_plan *plan, const void *a,
                  const void *b, const void *bias, void *c, struct err *err)
{
    const struct planned_shape *planned = plan->algorithm;
    if (planned->parts == 1)
        return cublaslt_run(gemm->lt, planned->plan, a, b, bias, c, err);
    int status = cublaslt_run(gemm->lt, planned->plan, a, b, NULL, gemm->partials, err);
    uint64_t elements = plan->shape.m * plan->shape.n;
    if (status)
        return status;
    cudaError_t code = cuda_columns_fold(c, gemm->partials, planned->parts, elements, elements,
                                         plan->shape.accumulate, gemm->stream);
    return device_cuda_status(gemm->device, (int)code, "adding the parts of a product", err);
}

void cuda_gemm_describe(const struct cuda_gemm *gemm, struct str *out)
{
    uint64_t ids = 0; /* independent of the planning order */
    for (const struct planned_shape *planned = gemm->planned_shapes; planned;
         planned = planned->next) {
        const uint64_t parts[] = {planned->shape.m, planned->shape.n, planned->shape.k,
                                  planned->parts, planned->id};
        ids += hash_64(parts, sizeof parts);
    }
    cublaslt_describe(gemm->lt, out);
    str_add_format(out, " algorithms %016llx", (unsigned long long)ids);
}
