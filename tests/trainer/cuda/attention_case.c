/*
 * attention_case — see attention_case.h.
 */
#include "tests/trainer/cuda/attention_case.h"

#include "trainer/ops/cuda/attention/attention.h"

#include <math.h>
#include <stdlib.h>

struct attention_sizes attention_sizes_of(const struct attn_shape *shape)
{
    size_t rows = shape->batch * shape->tokens;
    return (struct attention_sizes){rows * (shape->heads + 2 * shape->kv_heads) * shape->head_dim,
                                    rows * shape->heads * shape->head_dim, rows * shape->heads};
}

void attention_result_deinit(struct attention_result *result)
{
    free(result->out), free(result->lse), free(result->d_qkv);
}

static struct attention_result result_init(const struct attn_shape *shape)
{
    struct attention_sizes sizes = attention_sizes_of(shape);
    struct attention_result result = {calloc(sizes.out, sizeof(double)),
                                      calloc(sizes.lse, sizeof(double)),
                                      calloc(sizes.qkv, sizeof(double))};
    assert_non_null(result.out);
    assert_non_null(result.lse);
    assert_non_null(result.d_qkv);
    return result;
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *sum, double factor, const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += factor * x[i];
}

static void round_all(enum dtype round_dtype, double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = cuda_case_round(round_dtype, x[i]);
}

/* Computes one query. p receives the probabilities of keys first to end - 1. */
static void reference_row(enum dtype round_dtype, const struct attn_shape *s, size_t head,
                          size_t token, size_t first, const double *qkv, const double *d_out,
                          struct attention_result *result, double *p)
{
    size_t width = (s->heads + 2 * s->kv_heads) * s->head_dim, d = s->head_dim;
    size_t k_at = (s->heads + head / (s->heads / s->kv_heads)) * d, v_at = k_at + s->kv_heads * d;
    size_t end = s->causal ? token + 1 : s->tokens, out_at = (token * s->heads + head) * d;
    const double *q = qkv + token * width + head * d, *d_o = d_out + out_at;
    double scale = 1 / sqrt((double)d), largest = -(double)INFINITY, total = 0,
           *out = result->out + out_at;
    for (size_t j = first; j < end; j++) {
        p[j] = cuda_case_round(round_dtype, scale * dot(q, qkv + j * width + k_at, d));
        largest = fmax(largest, p[j]);
    }
    for (size_t j = first; j < end; j++)
        total += p[j] = exp(p[j] - largest);
    result->lse[head * s->tokens + token] = largest + log(total);
    for (size_t j = first; j < end; j++) {
        p[j] = cuda_case_round(round_dtype, p[j] / total);
        add_scaled(out, p[j], qkv + j * width + v_at, d);
    }
    round_all(round_dtype, out, d);
    double d_dot = dot(d_o, out, d);
    for (size_t j = first; j < end; j++) {
        const double *key = qkv + j * width;
        double *d_key = result->d_qkv + j * width;
        double d_p = cuda_case_round(round_dtype, dot(d_o, key + v_at, d));
        double d_score = cuda_case_round(round_dtype, p[j] * (d_p - d_dot));
        add_scaled(d_key + v_at, p[j], d_o, d);
        add_scaled(d_key + k_at, scale * d_score, q, d);
        add_scaled(result->d_qkv + token * width + head * d, scale * d_score, key + k_at, d);
    }
}

struct attention_result attention_reference(enum dtype round_dtype, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts)
{
    struct attention_result result = result_init(shape);
    struct attn_shape item = *shape;
    item.batch = 1;
    struct attention_sizes sizes = attention_sizes_of(shape), of_item = attention_sizes_of(&item);
    double *p = malloc(shape->tokens * sizeof *p);
    assert_non_null(p);
    for (size_t b = 0; b < shape->batch; b++) {
        struct attention_result at = {result.out + b * of_item.out, result.lse + b * of_item.lse,
                                      result.d_qkv + b * of_item.qkv};
        for (size_t head = 0; head < shape->heads; head++)
            for (size_t token = 0; token < shape->tokens; token++)
                reference_row(round_dtype, &item, head, token,
                              row_starts ? (size_t)row_starts[b * shape->tokens + token] : 0,
                              qkv + b * of_item.qkv, d_out + b * of_item.out, &at, p);
    }
    free(p);
    round_all(round_dtype, result.d_qkv, sizes.qkv);
    return result;
}

struct attention_result attention_on_cpu(const struct attn_shape *shape, const double *qkv,
                                         const double *d_out, const int32_t *row_starts)
{
    struct attention_result result = result_init(shape);
    struct ops *ops;
    struct err err;
    assert_ok(ops_cpu_open(NULL, DTYPE_F64, 1, &ops, &err), &err);
    assert_ok(ops->table->plan_attn(ops, shape, &err), &err);
    double *scratch =
        malloc((ops->table->attn_bwd_scratch_elements(ops, shape) + 1) * sizeof *scratch);
    ops->table->attn_fwd(ops, shape, result.out, result.lse, qkv, row_starts);
    ops->table->attn_bwd(ops, shape, result.d_qkv, d_out, qkv, result.out, result.lse, row_starts,
                         scratch);
    assert_ok(ops->table->sync(ops, &err), &err);
    ops_close(ops);
    free(scratch);
    return result;
}

struct attention_result attention_on_device(enum dtype dtype, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts)
{
    struct attention_sizes sizes = attention_sizes_of(shape);
    uint64_t workspace_floats = cuda_attention_bwd_workspace_floats(shape);
    int32_t *starts = NULL;
    if (row_starts)
        starts = cuda_case_bytes(row_starts, shape->batch * shape->tokens * sizeof *starts);
    const struct cuda_attention_fwd_arrays fwd = {cuda_case_blank(dtype, sizes.out),
                                                  cuda_case_blank(DTYPE_F32, sizes.lse),
                                                  cuda_case_array(dtype, qkv, sizes.qkv), starts};
    const struct cuda_attention_bwd_arrays bwd = {.d_qkv = cuda_case_blank(dtype, sizes.qkv),
                                                  .d_out = cuda_case_array(dtype, d_out, sizes.out),
                                                  .qkv = fwd.qkv,
                                                  .out = fwd.out,
                                                  .lse = fwd.lse,
                                                  .row_starts = starts,
                                                  .workspace =
                                                      cuda_case_blank(DTYPE_F32, workspace_floats)};
    cuda_ok(cuda_attention_prepare(dtype, shape));
    cuda_ok(cuda_attention_fwd(dtype, shape, &fwd, NULL));
    cuda_ok(cuda_attention_bwd(dtype, shape, &bwd, NULL));
    struct attention_result result = {cuda_case_read(dtype, fwd.out, sizes.out),
                                      cuda_case_read(DTYPE_F32, fwd.lse, sizes.lse),
                                      cuda_case_read(dtype, bwd.d_qkv, sizes.qkv)};
    /* checks that nothing was written past the end */
    free(cuda_case_read_bytes(bwd.workspace, workspace_floats * sizeof(float)));
    cuda_case_free(fwd.out), cuda_case_free(fwd.lse), cuda_case_free((void *)fwd.qkv);
    cuda_case_free(bwd.d_qkv), cuda_case_free((void *)bwd.d_out), cuda_case_free(bwd.workspace);
    if (starts)
        cuda_case_free(starts);
    return result;
}
