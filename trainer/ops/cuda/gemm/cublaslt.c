/*
 * cublaslt — see cublaslt.h.
 *
 * The library is column-major: the row-major C = op(A) op(B) is its C' = op(B)' op(A)', so A and B
 * are swapped and nothing is copied.
 */
#include "trainer/ops/cuda/gemm/cublaslt.h"

#include "base/hash.h"
#include "trainer/ops/cuda/gemm/cublaslt_library.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct cublaslt {
    const struct cublaslt_library *library;
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};

struct cublaslt_plan {
    const struct cublaslt_library *library;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* the library's first operand is our B */
    cublasLtMatmulAlgo_t algorithm;
    bool has_bias;
    float beta;
};

static int report_failure(cublasStatus_t status, const char *action, struct err *err)
{
    return err_set(err, -EIO, "cuBLASLt could not %s: status %d", action, (int)status);
}

int cublaslt_open(cudaStream_t stream, void *workspace, size_t workspace_bytes,
                  struct cublaslt **ret_lt, struct err *err)
{
    struct cublaslt *lt = calloc(1, sizeof *lt);
    if (!lt)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    lt->stream = stream;
    lt->workspace = workspace;
    lt->workspace_bytes = workspace_bytes;
    int status = cublaslt_library_load(&lt->library, err);
    if (!status) {
        cublasStatus_t code = lt->library->Create(&lt->handle);
        status = code == CUBLAS_STATUS_SUCCESS ? 0 : report_failure(code, "start", err);
    }
    if (status) {
        cublaslt_close(lt);
        return status;
    }
    *ret_lt = lt;
    return 0;
}

void cublaslt_close(struct cublaslt *lt)
{
    if (lt && lt->handle)
        lt->library->Destroy(lt->handle);
    free(lt);
}

static cudaDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* The library sees a row-major rows x cols matrix as its transpose. */
static cublasStatus_t make_layout(const struct cublaslt_library *l, cublasLtMatrixLayout_t *layout,
                                  enum dtype dtype, uint64_t rows, uint64_t cols, uint32_t batch,
                                  uint64_t stride)
{
    cublasStatus_t status =
        l->MatrixLayoutCreate(layout, type_of(dtype), cols, rows, (int64_t)cols);
    if (status != CUBLAS_STATUS_SUCCESS || batch == 1)
        return status;
    int32_t count = (int32_t)batch;
    int64_t offset = (int64_t)stride;
    status = l->MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return l->MatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &offset, sizeof offset);
}

enum { ALIGN_BYTES = 16 };

/* The bias pointer is a placeholder whose alignment affects the choice of algorithm. */
static cublasStatus_t make_desc(const struct cublaslt_library *l, const struct cublaslt_product *p,
                                cublasLtMatmulDesc_t *desc)
{
    const void *bias = (const void *)(uintptr_t)ALIGN_BYTES;
    const cublasOperation_t first = p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t status = l->MatmulDescCreate(desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            l->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            l->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS && p->bias)
        status =
            l->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return status;
}

/* Excludes split reductions and assumes only the guaranteed alignment. */
static cublasStatus_t make_preference(const struct cublaslt *lt,
                                      cublasLtMatmulPreference_t *preference)
{
    const struct cublaslt_library *l = lt->library;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE, align = ALIGN_BYTES;
    const uint64_t bytes = lt->workspace_bytes;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, sizeof align},
    };
    cublasStatus_t status = l->MatmulPreferenceCreate(preference);
    for (size_t i = 0;
         i < sizeof attributes / sizeof attributes[0] && status == CUBLAS_STATUS_SUCCESS; i++)
        status = l->MatmulPreferenceSetAttribute(*preference, attributes[i].name,
                                                 attributes[i].value, attributes[i].bytes);
    return status;
}

/* Hashes the attributes that distinguish algorithms. The library requires their exact sizes. */
static uint32_t algorithm_id(const struct cublaslt_library *l,
                             const cublasLtMatmulAlgo_t *algorithm)
{
    static const struct {
        cublasLtMatmulAlgoConfigAttributes_t name;
        size_t bytes;
    } parts[] = {
        {CUBLASLT_ALGO_CONFIG_ID, sizeof(int32_t)},
        {CUBLASLT_ALGO_CONFIG_TILE_ID, sizeof(uint32_t)},
        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, sizeof(int32_t)},
        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, sizeof(uint32_t)},
        {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, sizeof(uint32_t)},
        {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, sizeof(uint32_t)},
        {CUBLASLT_ALGO_CONFIG_STAGES_ID, sizeof(uint32_t)},
        {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, sizeof(uint16_t)},
        {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, sizeof(uint16_t)},
    };
    /* missing attributes stay 0 */
    uint64_t values[sizeof parts / sizeof parts[0]] = {0};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t bytes = 0;
        l->MatmulAlgoConfigGetAttribute(algorithm, parts[i].name, &values[i], parts[i].bytes,
                                        &bytes);
    }
    return (uint32_t)hash_64(values, sizeof values);
}

static int choose_algorithm(struct cublaslt *lt, struct cublaslt_plan *plan, struct err *err)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    cublasStatus_t status = make_preference(lt, &preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            lt->library->MatmulAlgoGetHeuristic(lt->handle, plan->desc, plan->a, plan->b, plan->c,
                                                plan->c, preference, 1, &result, &count);
    if (preference)
        lt->library->MatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0))
        return err_set(err, -ENOTSUP, "cuBLASLt has no algorithm for this product");
    if (status == CUBLAS_STATUS_SUCCESS)
        status = result.state;
    if (status != CUBLAS_STATUS_SUCCESS)
        return report_failure(status, "choose an algorithm", err);
    plan->algorithm = result.algo;
    return 0;
}

int cublaslt_plan(struct cublaslt *lt, const struct cublaslt_product *p,
                  struct cublaslt_plan **ret_plan, uint32_t *ret_id, struct err *err)
{
    struct cublaslt_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    const struct cublaslt_library *l = plan->library = lt->library;
    plan->has_bias = p->bias;
    plan->beta = p->accumulate ? 1.0f : 0.0f;
    cublasStatus_t code = make_desc(l, p, &plan->desc);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(l, &plan->a, p->input, p->trans_b ? p->n : p->k,
                           p->trans_b ? p->k : p->n, p->batch, p->stride_b);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(l, &plan->b, p->input, p->trans_a ? p->k : p->m,
                           p->trans_a ? p->m : p->k, p->batch, p->stride_a);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(l, &plan->c, p->output, p->m, p->n, p->batch, p->stride_c);
    int status = code == CUBLAS_STATUS_SUCCESS ? choose_algorithm(lt, plan, err)
                                               : report_failure(code, "describe a product", err);
    if (status) {
        err_expected(err, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " of %s", p->m, p->n, p->k,
                     dtype_name(p->input));
        cublaslt_plan_free(plan);
        return status;
    }
    *ret_plan = plan;
    *ret_id = algorithm_id(l, &plan->algorithm);
    return 0;
}

void cublaslt_plan_free(struct cublaslt_plan *plan)
{
    if (!plan)
        return;
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            plan->library->MatrixLayoutDestroy(layouts[i]);
    if (plan->desc)
        plan->library->MatmulDescDestroy(plan->desc);
    free(plan);
}

int cublaslt_run(struct cublaslt *lt, const struct cublaslt_plan *plan, const void *a,
                 const void *b, const void *bias, void *c, struct err *err)
{
    const float alpha = 1;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (plan->has_bias)
        status = lt->library->MatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                     &bias, sizeof bias);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt->library->Matmul(lt->handle, plan->desc, &alpha, b, plan->a, a, plan->b,
                                     &plan->beta, c, plan->c, c, plan->c, &plan->algorithm,
                                     lt->workspace, lt->workspace_bytes, lt->stream);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : report_failure(status, "multiply", err);
}

void cublaslt_describe(const struct cublaslt *lt, struct str *out)
{
    str_add_format(out, "cuBLASLt %zu", lt->library->GetVersion());
}
