/*
 * cublaslt — CPU stand-ins, for tests, for the functions of cublasLt.h that millrace uses. OpenBLAS
 * computes the matrix products, which are queued as in cuBLASLt.
 *
 * Matrices are column-major and described as cuBLASLt requires. Calls that cuBLASLt would refuse
 * are refused: an attribute of the wrong size, shapes that do not match, a matrix, bias or
 * workspace with a weaker alignment than stated when the algorithm was chosen, an algorithm chosen
 * for a different product, a choice during a capture. Reading beyond an allocation is a violation,
 * and so is a request for sums split over blocks. Elements are converted to float, multiplied in
 * float and rounded once, as tensor cores do; the order of sums is OpenBLAS's.
 */
#include "base/hash.h"
#include "base/numeric/half.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/violation.h"
#include "trainer/ops/cpu/blas.h"

#include <assert.h>
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEST_ALIGN_BYTES = 256, /* cuBLASLt's default */
    WORKSPACE_ALIGN_BYTES = 16,
    WORKSPACE_USED_BYTES = 4096,
    VERSION = 130000
};

/* The opaque types. */
struct desc {
    cublasOperation_t trans[2];
    cublasLtEpilogue_t epilogue;
    const void *bias;
};

struct layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch;
};

enum { OPERANDS = 4 }; /* A, B, C, D */

struct preference {
    uint64_t workspace_bytes;
    uint32_t reduction_mask, align_bytes[OPERANDS];
};

/* Stored in a cublasLtMatmulAlgo_t. */
struct algorithm_choice {
    uint64_t product; /* hash of the product it was chosen for */
    uint32_t align_bytes[OPERANDS], bias_align_bytes;
    uint16_t cluster_shape;
};
static_assert(sizeof(struct algorithm_choice) <= sizeof(cublasLtMatmulAlgo_t), "it fits");

struct cublasLtContext {
    struct blas blas;
};

/* One queued product. */
struct product_job {
    struct blas blas;
    struct desc desc;
    struct layout a, b, d;
    const char *a_data, *b_data;
    char *d_data, *workspace;
    float alpha, beta;
};

static struct shim_gemms current_products = {.has_algorithms = true};

void shim_set_products(struct shim_gemms products)
{
    current_products = products;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    struct cublasLtContext *context = malloc(sizeof *context);
    if (!context || blas_open(&context->blas, NULL)) {
        free(context);
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = context;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

/* Where an attribute is stored: its address and size. */
struct attribute_slot {
    void *value;
    size_t bytes;
};

static cublasStatus_t set_attribute(struct attribute_slot slot, const void *value, size_t bytes)
{
    if (!slot.value || !value || bytes != slot.bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(slot.value, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

#define SLOT(member) ((struct attribute_slot){&(member), sizeof(member)})

/* Returns a copy of `initial` as the opaque type. */
static cublasStatus_t make_handle(void *ret_handle, const void *initial, size_t bytes)
{
    void *made = malloc(bytes);
    if (!made)
        return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(made, initial, bytes);
    memcpy(ret_handle, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    const struct desc initial = {.trans = {CUBLAS_OP_N, CUBLAS_OP_N},
                                 .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return make_handle(desc, &initial, sizeof initial);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes)
{
    struct desc *desc = (struct desc *)handle;
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set_attribute(SLOT(desc->trans[0]), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set_attribute(SLOT(desc->trans[1]), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set_attribute(SLOT(desc->epilogue), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set_attribute(SLOT(desc->bias), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    const struct layout initial = {.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
    if (rows == 0 || cols == 0 || ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    return make_handle(layout, &initial, sizeof initial);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t bytes)
{
    struct layout *layout = (struct layout *)handle;
    switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return set_attribute(SLOT(layout->batch), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return set_attribute(SLOT(layout->stride), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    struct preference initial = {.reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK};
    for (int i = 0; i < OPERANDS; i++)
        initial.align_bytes[i] = BEST_ALIGN_BYTES;
    return make_handle(preference, &initial, sizeof initial);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t bytes)
{
    struct preference *preference = (struct preference *)handle;
    switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set_attribute(SLOT(preference->workspace_bytes), value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set_attribute(SLOT(preference->reduction_mask), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set_attribute(SLOT(preference->align_bytes[0]), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set_attribute(SLOT(preference->align_bytes[1]), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set_attribute(SLOT(preference->align_bytes[2]), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set_attribute(SLOT(preference->align_bytes[3]), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* The numbers of rows and columns of op(X). */
static uint64_t rows_of(const struct layout *layout, cublasOperation_t trans)
{
    return trans == CUBLAS_OP_N ? layout->rows : layout->cols;
}

static uint64_t cols_of(const struct layout *layout, cublasOperation_t trans)
{
    return trans == CUBLAS_OP_N ? layout->cols : layout->rows;
}

static bool is_valid_product(const struct desc *desc, const struct layout *a,
                             const struct layout *b, const struct layout *c, const struct layout *d)
{
    bool fits = rows_of(a, desc->trans[0]) == d->rows && cols_of(b, desc->trans[1]) == d->cols &&
                cols_of(a, desc->trans[0]) == rows_of(b, desc->trans[1]);
    bool types =
        a->type == b->type && c->type == d->type && (d->type == a->type || d->type == CUDA_R_32F);
    return fits && types && a->batch == d->batch && b->batch == d->batch &&
           memcmp(c, d, sizeof *c) == 0 &&
           (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
            desc->epilogue == CUBLASLT_EPILOGUE_BIAS);
}

static uint64_t hash_product(const struct desc *desc, const struct layout *a,
                             const struct layout *b, const struct layout *d)
{
    uint64_t words[12] = {(uint64_t)desc->trans[0],
                          (uint64_t)desc->trans[1],
                          (uint64_t)desc->epilogue,
                          (uint64_t)a->type,
                          (uint64_t)d->type,
                          d->rows,
                          d->cols,
                          cols_of(a, desc->trans[0]),
                          (uint64_t)d->batch,
                          (uint64_t)a->ld,
                          (uint64_t)b->ld,
                          (uint64_t)d->ld};
    return hash_64(words, sizeof words);
}

static uint32_t alignment_bytes(const void *data)
{
    uintptr_t lowest = (uintptr_t)data & -(uintptr_t)data;
    return lowest == 0 || lowest > BEST_ALIGN_BYTES ? BEST_ALIGN_BYTES : (uint32_t)lowest;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t desc_handle,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_handle,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[],
                                              int *ret_count)
{
    const struct desc *desc = (const struct desc *)desc_handle;
    const struct preference *preference = (const struct preference *)preference_handle;
    struct algorithm_choice choice = {.bias_align_bytes = alignment_bytes(desc->bias),
                                      .cluster_shape = current_products.cluster_shape};
    if (!handle || wanted < 1 || queue_check_allocation() != cudaSuccess)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (preference->reduction_mask != CUBLASLT_REDUCTION_SCHEME_NONE)
        shim_violation("an algorithm is chosen that may split sums over blocks");
    *ret_count = 0;
    if (!current_products.has_algorithms || preference->workspace_bytes < WORKSPACE_USED_BYTES ||
        !is_valid_product(desc, (struct layout *)a, (struct layout *)b, (struct layout *)c,
                          (struct layout *)d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    choice.product = hash_product(desc, (struct layout *)a, (struct layout *)b, (struct layout *)d);
    memcpy(choice.align_bytes, preference->align_bytes, sizeof choice.align_bytes);
    results[0] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = WORKSPACE_USED_BYTES,
                                                   .state = CUBLAS_STATUS_SUCCESS};
    memcpy(&results[0].algo, &choice, sizeof choice);
    *ret_count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_attribute(const void *value, size_t value_bytes, void *target,
                                    size_t bytes, size_t *ret_bytes)
{
    if (!target || bytes != value_bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(target, value, bytes);
    *ret_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t bytes, size_t *ret_bytes)
{
    const uint16_t zero_16 = 0;
    const uint32_t zero_32 = 0, one_32 = 1;
    struct algorithm_choice choice;
    memcpy(&choice, algorithm, sizeof choice);
    switch (name) {
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
        return get_attribute(&choice.cluster_shape, sizeof choice.cluster_shape, value, bytes,
                             ret_bytes);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
        return get_attribute(&zero_16, sizeof zero_16, value, bytes, ret_bytes);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        return get_attribute(&one_32, sizeof one_32, value, bytes, ret_bytes);
    default:
        return get_attribute(&zero_32, sizeof zero_32, value, bytes, ret_bytes);
    }
}

static float get_element(cudaDataType type, const void *x, uint64_t i)
{
    if (type == CUDA_R_32F)
        return ((const float *)x)[i];
    uint16_t bits = ((const uint16_t *)x)[i];
    return type == CUDA_R_16BF ? half_from_bf16(bits) : half_from_f16(bits);
}

static float *floats_of(cudaDataType type, const void *x, uint64_t first, uint64_t count)
{
    float *floats = malloc(count * sizeof *floats);
    for (uint64_t i = 0; floats && i < count; i++)
        floats[i] = get_element(type, x, first + i);
    return floats;
}

/* Rounds to nearest, ties to even, by adding just under half of the dropped word plus the lowest
 * kept bit. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Also rounds to nearest, ties to even; numbers below 2^-14 have the spacing of that exponent. */
static uint16_t f16_of(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double magnitude = fabs((double)x);
    if (magnitude != magnitude)
        return 0x7fff;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    int exponent = magnitude < 0x1p-14 ? -14 : ilogb(magnitude);
    int steps = (int)nearbyint(ldexp(magnitude, 10 - exponent));
    return (uint16_t)(sign | (((exponent + 14) << 10) + steps));
}

static void set_element(cudaDataType type, void *x, uint64_t i, float value)
{
    if (type == CUDA_R_32F)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = type == CUDA_R_16BF ? bf16_of(value) : f16_of(value);
}

static size_t element_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* The number of elements in one matrix, including the gaps between columns. */
static uint64_t matrix_elements(const struct layout *layout)
{
    return (layout->cols - 1) * (uint64_t)layout->ld + layout->rows;
}

static uint64_t layout_bytes(const struct layout *layout)
{
    uint64_t before = (uint64_t)(layout->batch - 1) * (uint64_t)layout->stride;
    return (before + matrix_elements(layout)) * element_bytes(layout->type);
}

/* A column-major matrix is its transpose in row-major order, so D' = op(B)' op(A)'. */
static void run_batch_item(const struct product_job *job, int32_t part)
{
    const struct layout *d = &job->d;
    uint64_t first = (uint64_t)part * (uint64_t)d->stride;
    float *a = floats_of(job->a.type, job->a_data, (uint64_t)(part * job->a.stride),
                         matrix_elements(&job->a));
    float *b = floats_of(job->b.type, job->b_data, (uint64_t)(part * job->b.stride),
                         matrix_elements(&job->b));
    float *sums = floats_of(d->type, job->d_data, first, matrix_elements(d));
    if (!a || !b || !sums)
        abort(); /* tests do not handle allocation failure */
    const struct blas_product product = {.trans_a = job->desc.trans[1] == CUBLAS_OP_T,
                                         .trans_b = job->desc.trans[0] == CUBLAS_OP_T,
                                         .m = d->cols,
                                         .n = d->rows,
                                         .k = cols_of(&job->a, job->desc.trans[0]),
                                         .lda = (uint64_t)job->b.ld,
                                         .ldb = (uint64_t)job->a.ld,
                                         .ldc = (uint64_t)d->ld,
                                         .alpha = job->alpha,
                                         .beta = job->beta};
    if (job->beta == 0)
        memset(sums, 0, matrix_elements(d) * sizeof *sums);
    blas_multiply_f32(&job->blas, &product, b, a, sums);
    bool has_bias = job->desc.epilogue == CUBLASLT_EPILOGUE_BIAS;
    for (uint64_t col = 0; col < d->cols; col++)
        for (uint64_t row = 0; row < d->rows; row++) {
            uint64_t i = col * (uint64_t)d->ld + row;
            set_element(d->type, job->d_data, first + i,
                        has_bias ? sums[i] + get_element(d->type, job->desc.bias, row) : sums[i]);
        }
    free(a), free(b), free(sums);
}

static void run_product(void *data)
{
    const struct product_job *job = data;
    /* the library may overwrite all of the workspace */
    memset(job->workspace, 0xff, WORKSPACE_USED_BYTES);
    for (int32_t part = 0; part < job->d.batch; part++)
        run_batch_item(job, part);
}

static bool is_aligned(const void *data, uint32_t align_bytes)
{
    return (uintptr_t)data % align_bytes == 0;
}

/* The whole range must be accessible to the device. */
static void check_memory(const void *data, uint64_t bytes, const char *what)
{
    if (memory_kind_of(data, bytes, what) == MEMORY_PAGEABLE)
        shim_violation("%s is in memory that a device can't reach", what);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc_handle,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_handle,
                              const void *b, cublasLtMatrixLayout_t b_handle, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_handle, void *d,
                              cublasLtMatrixLayout_t d_handle,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const struct desc *desc = (const struct desc *)desc_handle;
    const struct layout *a_layout = (struct layout *)a_handle,
                        *b_layout = (struct layout *)b_handle,
                        *c_layout = (struct layout *)c_handle,
                        *d_layout = (struct layout *)d_handle;
    bool has_bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS;
    struct algorithm_choice choice;
    memcpy(&choice, algorithm, sizeof choice);
    if (!is_valid_product(desc, a_layout, b_layout, c_layout, d_layout) || c != d ||
        choice.product != hash_product(desc, a_layout, b_layout, d_layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_aligned(a, choice.align_bytes[0]) || !is_aligned(b, choice.align_bytes[1]) ||
        !is_aligned(c, choice.align_bytes[2]) || !is_aligned(d, choice.align_bytes[3]) ||
        (has_bias && !is_aligned(desc->bias, choice.bias_align_bytes)) ||
        !is_aligned(workspace, WORKSPACE_ALIGN_BYTES) || workspace_bytes < WORKSPACE_USED_BYTES)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    check_memory(a, layout_bytes(a_layout), "A of a product");
    check_memory(b, layout_bytes(b_layout), "B of a product");
    check_memory(d, layout_bytes(d_layout), "D of a product");
    check_memory(workspace, workspace_bytes, "the workspace of a product");
    if (has_bias)
        check_memory(desc->bias, d_layout->rows * element_bytes(d_layout->type),
                     "the bias of a product");
    struct product_job *job = malloc(sizeof *job);
    if (!job)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *job = (struct product_job){handle->blas, *desc, *a_layout, *b_layout, *d_layout, a, b, d,
                                workspace,    0,     0};
    memcpy(&job->alpha, alpha, sizeof job->alpha);
    memcpy(&job->beta, beta, sizeof job->beta);
    cudaError_t status = queue_add(stream, (struct queue_work){run_product, free, job});
    return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
