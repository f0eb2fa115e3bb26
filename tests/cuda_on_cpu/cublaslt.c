/*
 * cublaslt — trainer/cuda/cublaslt.h for kernels that run on the CPU: the products by OpenBLAS, queued as the library queues them.
 *
 * Elements become floats, are multiplied in float and rounded once, as tensor cores do; the order of sums is OpenBLAS's.
 */
#include "trainer/cuda/cublaslt.h"

#include "base/half.h"
#include "tests/cuda_on_cpu/queue.h"
#include "trainer/ops_cpu_blas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cublaslt {
    struct blas blas;
    cudaStream_t stream;
};

struct cublaslt_plan {
    struct cublaslt_product product;
};

/* One queued product. */
struct job {
    struct blas blas;
    struct cublaslt_product product;
    const void *a, *b, *bias;
    void *c;
};

int cublaslt_open(cudaStream_t stream, void *workspace, size_t workspace_bytes, struct cublaslt **ret_lt,
                  struct err *err)
{
    (void)workspace, (void)workspace_bytes;
    struct cublaslt *lt = calloc(1, sizeof *lt);
    if (!lt)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    lt->stream = stream;
    int status = blas_open(&lt->blas, err);
    if (status) {
        free(lt);
        return status;
    }
    *ret_lt = lt;
    return 0;
}

void cublaslt_close(struct cublaslt *lt)
{
    free(lt);
}

int cublaslt_plan(struct cublaslt *lt, const struct cublaslt_product *product,
                  struct cublaslt_plan **ret_plan, uint32_t *ret_id, struct err *err)
{
    (void)lt;
    struct cublaslt_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return err_set(err, -ENOMEM, "out of memory for matrix products");
    plan->product = *product;
    *ret_plan = plan;
    *ret_id = 1;
    return 0;
}

void cublaslt_plan_free(struct cublaslt_plan *plan)
{
    free(plan);
}

static float element(enum dtype dtype, const void *x, uint64_t i)
{
    if (dtype == DTYPE_F32)
        return ((const float *)x)[i];
    uint16_t bits = ((const uint16_t *)x)[i];
    return dtype == DTYPE_BF16 ? half_from_bf16(bits) : half_from_f16(bits);
}

static float *floats_of(enum dtype dtype, const void *x, uint64_t first, uint64_t count)
{
    float *floats = malloc(count * sizeof *floats);
    for (uint64_t i = 0; floats && i < count; i++)
        floats[i] = element(dtype, x, first + i);
    return floats;
}

/* To nearest, ties to even: the half of the word that goes decides, with the lowest bit that stays. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The same; numbers below 2^-14 have the spacing of that exponent. */
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

static void put(enum dtype dtype, void *x, uint64_t i, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = dtype == DTYPE_BF16 ? bf16_of(value) : f16_of(value);
}

static void run_one(const struct job *job, uint32_t part)
{
    const struct cublaslt_product *p = &job->product;
    uint64_t first = part * p->stride_c, count = p->m * p->n;
    float *a = floats_of(p->input, job->a, part * p->stride_a, p->m * p->k);
    float *b = floats_of(p->input, job->b, part * p->stride_b, p->k * p->n);
    float *c = floats_of(p->output, job->c, first, count);
    if (!a || !b || !c)
        abort(); /* a test without memory has nothing to say */
    const struct blas_product product = {.trans_a = p->trans_a,
                                         .trans_b = p->trans_b,
                                         .m = p->m,
                                         .n = p->n,
                                         .k = p->k,
                                         .lda = p->trans_a ? p->m : p->k,
                                         .ldb = p->trans_b ? p->k : p->n,
                                         .ldc = p->n,
                                         .alpha = 1,
                                         .beta = p->accumulate};
    if (!p->accumulate)
        memset(c, 0, count * sizeof *c);
    blas_multiply_f32(&job->blas, &product, a, b, c);
    for (uint64_t i = 0; i < count; i++)
        put(p->output, job->c, first + i, p->bias ? c[i] + element(p->input, job->bias, i % p->n) : c[i]);
    free(a), free(b), free(c);
}

static void run(void *data)
{
    const struct job *job = data;
    for (uint32_t part = 0; part < job->product.batch; part++)
        run_one(job, part);
}

int cublaslt_run(struct cublaslt *lt, const struct cublaslt_plan *plan, const void *a, const void *b,
                 const void *bias, void *c, struct err *err)
{
    struct job *job = malloc(sizeof *job);
    if (!job)
        return err_set(err, -ENOMEM, "out of memory for a product");
    *job = (struct job){lt->blas, plan->product, a, b, bias, c};
    cudaError_t status = queue_add(lt->stream, (struct queue_work){run, free, job});
    return status == cudaSuccess ? 0 : err_set(err, -EIO, "could not queue a product: %d", (int)status);
}

void cublaslt_describe(const struct cublaslt *lt, struct str *out)
{
    blas_describe(&lt->blas, out);
    str_add_text(out, " for cuBLASLt");
}
