/*
 * ops_cuda — see ops_cuda.h: the hooks that call kernels, their workspace, and failure handling.
 *
 * Only sync waits for the device; only opening and planning allocate memory. sync returns failures
 * to queue kernels and failures that the device reports. Operations share the workspace, because
 * they run in order on one stream.
 */
#include "trainer/ops/cuda/ops_cuda.h"

#include "base/bytes.h"
#include "device/device_cuda.h"
#include "trainer/ops/cuda/attention/attention.h"
#include "trainer/ops/cuda/category_timer.h"
#include "trainer/ops/cuda/columns.h"
#include "trainer/ops/cuda/gemm/gemm.h"
#include "trainer/ops/cuda/norm.h"
#include "trainer/ops/cuda/patches.h"
#include "trainer/ops/cuda/pointwise.h"
#include "trainer/ops/cuda/rope.h"
#include "trainer/ops/cuda/rows.h"
#include "trainer/ops/cuda/update.h"
#include "trainer/ops/cuda/xent.h"
#include "trainer/ops/null/ops_null.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Increment after every kernel change that may change bits. */
    OPS_CUDA_KERNELS_VERSION = 1,
    /* Compute capability of the compiled kernels; the driver compiles them for others. */
    NATIVE_CAPABILITY_MAJOR = 9,
    LOGITS_ALIGN = 64,   /* product tiles have 64 columns */
    ROPE_TABLES_MAX = 4, /* rope shapes per run */
};

struct rope_table {
    float *angles;
    uint64_t tokens, head_dim;
    struct rope_spec spec;
};

static uint64_t rope_table_bytes(const struct rope_table *table)
{
    return cuda_rope_table_floats(table->tokens, table->head_dim) * sizeof(float);
}

struct ops_cuda {
    struct ops ops;
    cudaStream_t stream;
    struct cuda_gemm *gemm;
    float *workspace; /* partial sums of one operation */
    uint64_t workspace_bytes;
    struct rope_table ropes[ROPE_TABLES_MAX];
    int ropes_count;
    int status; /* first failure since the last sync */
    struct err failure;
};

static struct ops_cuda *cuda_of(struct ops *ops)
{
    return (struct ops_cuda *)ops;
}

static void record_failure(struct ops_cuda *cuda, int status, const struct err *detail)
{
    if (status == 0 || cuda->status)
        return;
    cuda->status = status;
    cuda->failure = *detail;
}

static void check_launch(struct ops *ops, cudaError_t code, const char *operation)
{
    struct err detail = {0};
    if (code != cudaSuccess)
        record_failure(cuda_of(ops), device_cuda_status(ops->device, (int)code, operation, &detail),
                       &detail);
}

static cudaStream_t stream_of(const struct ops *ops)
{
    return ((const struct ops_cuda *)ops)->stream;
}

/* The workspace that plan_rows reserved. */
static float *workspace_of(struct ops *ops, uint64_t floats)
{
    const struct ops_cuda *cuda = cuda_of(ops);
    (void)floats; /* unused without asserts */
    assert(floats * sizeof(float) <= cuda->workspace_bytes);
    return cuda->workspace;
}

static int plan_gemm(struct ops *ops, const struct gemm_shape *shape, struct gemm_plan *ret_plan,
                     struct err *err)
{
    return cuda_gemm_plan(cuda_of(ops)->gemm, shape, ret_plan, err);
}

static void gemm(struct ops *ops, const struct gemm_plan *plan, const void *a, const void *b,
                 const void *bias, void *c)
{
    struct err detail = {0};
    record_failure(cuda_of(ops), cuda_gemm_run(cuda_of(ops)->gemm, plan, a, b, bias, c, &detail),
                   &detail);
}

static uint64_t rows_workspace_bytes(uint64_t rows, uint64_t cols)
{
    const struct norm_shape norm = {.rows = rows, .cols = cols};
    uint64_t floats = bytes_max(cuda_bias_bwd_workspace_floats(rows, cols),
                                cuda_norm_bwd_workspace_floats(&norm));
    return bytes_max(floats, cuda_embed_bwd_workspace_floats(rows, cols)) * sizeof(float);
}

static int plan_rows(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err)
{
    struct ops_cuda *cuda = cuda_of(ops);
    struct device *device = ops->device;
    uint64_t bytes = rows_workspace_bytes(rows, cols);
    void *memory;
    if (bytes <= cuda->workspace_bytes)
        return 0;
    int status = device->ops->mem_alloc(device, MEM_DEVICE, bytes, &memory, err);
    if (status)
        return status;
    device->ops->mem_free(device, MEM_DEVICE, cuda->workspace, cuda->workspace_bytes);
    cuda->workspace = memory;
    cuda->workspace_bytes = bytes;
    return 0;
}

static void bias_bwd(struct ops *ops, void *d_bias, const void *d_out, uint64_t rows, uint64_t cols,
                     bool accumulate)
{
    float *workspace = workspace_of(ops, cuda_bias_bwd_workspace_floats(rows, cols));
    check_launch(ops,
                 cuda_bias_bwd(ops->compute, d_bias, d_out, rows, cols, accumulate, workspace,
                               stream_of(ops)),
                 "the gradient of a bias");
}

static void norm_fwd(struct ops *ops, const struct norm_shape *shape, void *out, void *mean,
                     void *rstd, const void *x, const void *weight, const void *bias)
{
    const struct cuda_norm_fwd_arrays arrays = {out, mean, rstd, x, weight, bias};
    check_launch(ops, cuda_norm_fwd(ops->compute, shape, &arrays, stream_of(ops)), "a norm");
}

static void norm_bwd(struct ops *ops, const struct norm_shape *shape, void *d_x, void *d_weight,
                     void *d_bias, const void *d_out, const void *x, const void *mean,
                     const void *rstd, const void *weight, bool accumulate)
{
    const struct cuda_norm_bwd_arrays arrays = {
        d_x,   d_weight, d_bias,
        d_out, x,        weight,
        mean,  rstd,     workspace_of(ops, cuda_norm_bwd_workspace_floats(shape))};
    check_launch(ops, cuda_norm_bwd(ops->compute, shape, &arrays, accumulate, stream_of(ops)),
                 "the gradient of a norm");
}

static int plan_attn(struct ops *ops, const struct attn_shape *shape, struct err *err)
{
    return cuda_attention_plan(ops, shape, err);
}

static void attn_fwd(struct ops *ops, const struct attn_shape *shape, void *out, void *lse,
                     const void *qkv, const int32_t *row_starts)
{
    const struct cuda_attention_fwd_arrays arrays = {out, lse, qkv, row_starts};
    check_launch(ops, cuda_attention_fwd(ops->compute, shape, &arrays, stream_of(ops)),
                 "attention");
}

static void attn_bwd(struct ops *ops, const struct attn_shape *shape, void *d_qkv,
                     const void *d_out, const void *qkv, const void *out, const void *lse,
                     const int32_t *row_starts, void *scratch)
{
    const struct cuda_attention_bwd_arrays arrays = {d_qkv, d_out,      qkv,    out,
                                                     lse,   row_starts, scratch};
    check_launch(ops, cuda_attention_bwd(ops->compute, shape, &arrays, stream_of(ops)),
                 "the gradient of attention");
}

static uint64_t attn_bwd_scratch_elements(struct ops *ops, const struct attn_shape *shape)
{
    (void)ops;
    return cuda_attention_bwd_workspace_floats(shape);
}

/* NULL if not planned. */
static const float *rope_angles(const struct ops_cuda *cuda, const struct attn_shape *shape,
                                const struct rope_spec *spec)
{
    for (int i = 0; i < cuda->ropes_count; i++) {
        const struct rope_table *table = &cuda->ropes[i];
        if (table->tokens >= shape->tokens && table->head_dim == shape->head_dim &&
            rope_spec_equal(&table->spec, spec))
            return table->angles;
    }
    return NULL;
}

static int plan_rope(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                     struct err *err)
{
    struct ops_cuda *cuda = cuda_of(ops);
    struct rope_table table = {.tokens = shape->tokens, .head_dim = shape->head_dim, .spec = *spec};
    if (rope_angles(cuda, shape, spec))
        return 0;
    if (cuda->ropes_count == ROPE_TABLES_MAX)
        return err_set(err, -EINVAL, "more than %d kinds of rotary positions", ROPE_TABLES_MAX);
    int status = ops->device->ops->mem_alloc(ops->device, MEM_DEVICE, rope_table_bytes(&table),
                                             (void **)&table.angles, err);
    if (status)
        return status;
    cuda->ropes[cuda->ropes_count++] = table;
    cudaError_t code =
        cuda_rope_table_fill(table.angles, table.tokens, table.head_dim, spec, stream_of(ops));
    return device_cuda_status(ops->device, (int)code, "rotary positions", err);
}

static void rope(struct ops *ops, const struct attn_shape *shape, void *qkv,
                 const struct rope_spec *spec, bool backward)
{
    const float *angles = rope_angles(cuda_of(ops), shape, spec);
    assert(angles);
    check_launch(ops, cuda_rope_rotate(ops->compute, shape, qkv, angles, backward, stream_of(ops)),
                 "rotary positions");
}

static void gelu_fwd(struct ops *ops, void *out, const void *x, uint64_t count)
{
    check_launch(ops, cuda_gelu_fwd(ops->compute, out, x, count, stream_of(ops)), "GELU");
}

static void gelu_bwd(struct ops *ops, void *d_x, const void *d_out, const void *x, uint64_t count)
{
    check_launch(ops, cuda_gelu_bwd(ops->compute, d_x, d_out, x, count, stream_of(ops)),
                 "the gradient of GELU");
}

static void swiglu_fwd(struct ops *ops, void *out, const void *gate_up, uint64_t rows,
                       uint64_t cols)
{
    check_launch(ops, cuda_swiglu_fwd(ops->compute, out, gate_up, rows, cols, stream_of(ops)),
                 "SwiGLU");
}

static void swiglu_bwd(struct ops *ops, void *d_gate_up, const void *d_out, const void *gate_up,
                       uint64_t rows, uint64_t cols)
{
    check_launch(
        ops, cuda_swiglu_bwd(ops->compute, d_gate_up, d_out, gate_up, rows, cols, stream_of(ops)),
        "the gradient of SwiGLU");
}

static void add(struct ops *ops, void *out, const void *a, const void *b, uint64_t count)
{
    check_launch(ops, cuda_add(ops->compute, out, a, b, count, stream_of(ops)), "a sum");
}

static void tree_add(struct ops *ops, void *target, const void *source, uint64_t count)
{
    check_launch(ops, cuda_add(ops->master, target, target, source, count, stream_of(ops)),
                 "a sum of gradients");
}

static void narrow(struct ops *ops, enum dtype type, void *out, const void *x, float scale,
                   uint64_t count)
{
    check_launch(ops, cuda_narrow(type, out, x, scale, count, stream_of(ops)),
                 "a rounding of gradients");
}

static void widen(struct ops *ops, enum dtype type, void *out, const void *x, float scale,
                  uint64_t count)
{
    check_launch(ops, cuda_widen(type, out, x, scale, count, stream_of(ops)),
                 "a widening of gradients");
}

static void embed_fwd(struct ops *ops, void *out, const int32_t *ids, uint64_t id_stride,
                      const void *table, const void *positions, uint64_t items, uint64_t tokens,
                      uint64_t cols)
{
    const struct cuda_embed embed = {ids, id_stride, items, tokens, cols};
    check_launch(ops, cuda_embed_fwd(ops->compute, &embed, out, table, positions, stream_of(ops)),
                 "an embedding");
}

static void embed_bwd(struct ops *ops, void *d_table, const void *d_out, const int32_t *ids,
                      uint64_t id_stride, const int32_t *rows_by_id, uint64_t items,
                      uint64_t tokens, uint64_t cols, uint64_t vocabulary, bool accumulate)
{
    const struct cuda_embed embed = {ids, id_stride, items, tokens, cols};
    const struct cuda_embed_bwd_arrays arrays = {
        d_table, d_out, rows_by_id,
        workspace_of(ops, cuda_embed_bwd_workspace_floats(items * tokens, cols))};
    check_launch(
        ops, cuda_embed_bwd(ops->compute, &embed, &arrays, vocabulary, accumulate, stream_of(ops)),
        "the gradient of an embedding");
}

static void positions_fwd(struct ops *ops, void *out, const void *x, const void *positions,
                          uint64_t items, uint64_t rows, uint64_t cols)
{
    const struct cuda_items_shape shape = {items, rows, cols};
    check_launch(ops, cuda_positions_fwd(ops->compute, &shape, out, x, positions, stream_of(ops)),
                 "positions");
}

static void positions_bwd(struct ops *ops, void *d_positions, const void *d_out, uint64_t items,
                          uint64_t rows, uint64_t cols, bool accumulate)
{
    const struct cuda_items_shape shape = {items, rows, cols};
    check_launch(
        ops,
        cuda_positions_bwd(ops->compute, &shape, d_positions, d_out, accumulate, stream_of(ops)),
        "the gradient of positions");
}

static void patches(struct ops *ops, void *out, const uint8_t *images, uint64_t items,
                    uint64_t side, uint64_t patch, const float mean[3], const float deviation[3])
{
    const struct cuda_images shape = {items, side, patch, mean, deviation};
    check_launch(ops, cuda_patches(ops->compute, &shape, out, images, stream_of(ops)), "patches");
}

static void pool_fwd(struct ops *ops, void *out, const void *x, uint64_t items, uint64_t rows,
                     uint64_t cols)
{
    const struct cuda_items_shape shape = {items, rows, cols};
    check_launch(ops, cuda_pool_fwd(ops->compute, &shape, out, x, stream_of(ops)), "a mean");
}

static void pool_bwd(struct ops *ops, void *d_x, const void *d_out, uint64_t items, uint64_t rows,
                     uint64_t cols)
{
    const struct cuda_items_shape shape = {items, rows, cols};
    check_launch(ops, cuda_pool_bwd(ops->compute, &shape, d_x, d_out, stream_of(ops)),
                 "the gradient of a mean");
}

static void xent(struct ops *ops, const struct xent_shape *shape, void *logits, double *losses,
                 uint8_t *correct, const int32_t *targets, const struct xent_mix *mix,
                 const double *gradient_scale)
{
    const struct cuda_xent_arrays arrays = {logits,
                                            losses,
                                            correct,
                                            targets,
                                            mix ? mix->targets : NULL,
                                            mix ? mix->weights : NULL,
                                            gradient_scale};
    check_launch(ops, cuda_xent(ops->compute, shape, &arrays, stream_of(ops)), "the cross-entropy");
}

static void update(struct ops *ops, enum update_rule rule, const struct update_options *options,
                   const struct update_arrays *arrays, const struct update_scalars *scalars)
{
    check_launch(ops, cuda_update(rule, options, arrays, ops->compute, scalars, stream_of(ops)),
                 "an update");
}

static void clip_gradients(struct ops *ops, struct gradient_clip *clip, const int64_t *losses,
                           const int64_t *squares, const struct gradient_clip_input *input)
{
    check_launch(ops, cuda_clip_gradients(clip, losses, squares, input, stream_of(ops)),
                 "gradient clipping");
}

static void convert_to_compute(struct ops *ops, void *compute, const void *master, uint64_t count)
{
    check_launch(ops, cuda_from_f32(ops->compute, compute, master, count, stream_of(ops)),
                 "a conversion of weights");
}

static void row_sumsq(struct ops *ops, double *sums, const void *x, uint64_t rows, uint64_t cols)
{
    check_launch(ops, cuda_row_sumsq(sums, x, rows, cols, stream_of(ops)), "a sum of squares");
}

static void add_to_exact_sum(struct ops *ops, int64_t *words, const double *terms, uint64_t count)
{
    check_launch(ops, cuda_add_to_exact_sum(words, terms, count, stream_of(ops)), "an exact sum");
}

static void add_flag_count(struct ops *ops, int64_t *word, const uint8_t *flags, uint64_t count)
{
    check_launch(ops, cuda_add_flag_count(word, flags, count, stream_of(ops)), "a count");
}

static void switch_category(struct ops *ops, struct category_timer *timer,
                            enum time_category category)
{
    check_launch(ops, cuda_switch_category(timer, category, stream_of(ops)), "a clock reading");
}

static void numerics_id(struct ops *ops, struct str *out)
{
    const struct device_cuda_info *info = device_cuda_info(ops->device);
    str_add_format(out, "cuda: %s, capability %d.%d, %d multiprocessors, runtime %d; ", info->name,
                   info->capability_major, info->capability_minor, info->multiprocessors,
                   info->runtime_version);
    if (info->capability_major != NATIVE_CAPABILITY_MAJOR || info->capability_minor != 0)
        str_add_format(out, "compiled by driver %d; ", info->driver_version);
    cuda_gemm_describe(cuda_of(ops)->gemm, out);
    str_add_format(out, "; kernels %d; %s", OPS_CUDA_KERNELS_VERSION, dtype_name(ops->compute));
}

static int status(const struct ops *ops, struct err *err)
{
    const struct ops_cuda *cuda = (const struct ops_cuda *)ops;
    if (cuda->status && err)
        *err = cuda->failure;
    return cuda->status;
}

static int sync(struct ops *ops, struct err *err)
{
    int synced = ops->device->ops->stream_sync(ops->device, ops->stream, err);
    /* the first failure, which may have caused the device's */
    int result = status(ops, err);
    cuda_of(ops)->status = 0;
    return result ? result : synced;
}

static void close(struct ops *ops)
{
    struct ops_cuda *cuda = cuda_of(ops);
    const struct device_ops *device = ops->device->ops;
    if (ops->stream)
        device->stream_sync(ops->device, ops->stream, NULL);
    cuda_gemm_close(cuda->gemm);
    for (int i = 0; i < cuda->ropes_count; i++)
        device->mem_free(ops->device, MEM_DEVICE, cuda->ropes[i].angles,
                         rope_table_bytes(&cuda->ropes[i]));
    device->mem_free(ops->device, MEM_DEVICE, cuda->workspace, cuda->workspace_bytes);
    if (ops->stream)
        device->stream_close(ops->device, ops->stream);
    free(cuda);
}

#define HOOK(name) .name = name,

static const struct ops_table table = {.name = "cuda",
                                       .embed_bwd_needs_rows_by_id = true,
                                       .logits_align = LOGITS_ALIGN,
                                       .switch_category = switch_category,
                                       OPS_TYPED_HOOKS(HOOK) OPS_UNTYPED_HOOKS(HOOK)};

int ops_cuda_open(struct device *device, enum dtype compute, struct ops **ret_ops, struct err *err)
{
    if (compute != DTYPE_F32 && compute != DTYPE_BF16 && compute != DTYPE_F16)
        return err_set(err, -EINVAL, "a GPU computes in F32, BF16 or F16, not in %s",
                       dtype_name(compute));
    struct ops_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return err_set(err, -ENOMEM, "out of memory for the compute ops");
    cuda->ops =
        (struct ops){.table = &table, .device = device, .compute = compute, .master = DTYPE_F32};
    int status = device_cuda_use(device, err);
    if (!status)
        status = device->ops->stream_open(device, &cuda->ops.stream, err);
    if (!status) {
        cuda->stream = device_cuda_stream(cuda->ops.stream);
        status = cuda_gemm_open(device, cuda->stream, compute, &cuda->gemm, err);
    }
    if (status) {
        close(&cuda->ops);
        return status;
    }
    *ret_ops = &cuda->ops;
    return 0;
}

static uint64_t null_rope_bytes(const struct attn_shape *shape)
{
    return cuda_rope_table_floats(shape->tokens, shape->head_dim) * sizeof(float);
}

const struct ops_null_model *ops_null_cuda(void)
{
    static const struct ops_null_model model = {.embed_bwd_needs_rows_by_id = true,
                                                .logits_align = LOGITS_ALIGN,
                                                .fixed_bytes = CUDA_GEMM_WORKSPACE_BYTES,
                                                .gemm_bytes = cuda_gemm_partials_bytes,
                                                .rows_bytes = rows_workspace_bytes,
                                                .rope_bytes = null_rope_bytes,
                                                .attn_bwd_scratch_elements =
                                                    cuda_attention_bwd_workspace_floats};
    return &model;
}
