/*
 * ops_null — see ops_null.h.
 */
#include "trainer/ops/null/ops_null.h"

#include "device/device_null.h"

#include <errno.h>
#include <stdlib.h>

struct memory_block {
    void *memory;
    uint64_t bytes;
};

enum { ROPES_MAX = 4 };

struct ops_null {
    struct ops ops;
    struct ops_table table;
    const struct ops_null_model *model;
    struct memory_block fixed, gemm, rows, ropes[ROPES_MAX];
    struct attn_shape rope_shapes[ROPES_MAX];
    int ropes_count;
    double flops;
};

static struct ops_null *null_of(struct ops *ops)
{
    return (struct ops_null *)ops;
}

/* Allocates the new block before freeing the old one, as the simulated backends do. */
static int reserve(struct ops *ops, struct memory_block *block, uint64_t bytes, struct err *err)
{
    const struct device_ops *device = ops->device->ops;
    void *memory;
    if (bytes <= block->bytes)
        return 0;
    int status = device->mem_alloc(ops->device, MEM_DEVICE, bytes, &memory, err);
    if (status)
        return status;
    device->mem_free(ops->device, MEM_DEVICE, block->memory, block->bytes);
    *block = (struct memory_block){memory, bytes};
    return 0;
}

static int plan_gemm(struct ops *ops, const struct gemm_shape *shape, struct gemm_plan *ret_plan,
                     struct err *err)
{
    struct ops_null *null = null_of(ops);
    *ret_plan = (struct gemm_plan){.shape = *shape};
    return null->model->gemm_bytes ? reserve(ops, &null->gemm, null->model->gemm_bytes(shape), err)
                                   : 0;
}

static int plan_rows(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err)
{
    struct ops_null *null = null_of(ops);
    return null->model->rows_bytes
               ? reserve(ops, &null->rows, null->model->rows_bytes(rows, cols), err)
               : 0;
}

static int plan_attn(struct ops *ops, const struct attn_shape *shape, struct err *err)
{
    (void)ops;
    return attn_shape_is_valid(shape) ? 0 : err_set(err, -EINVAL, "the attention shape is invalid");
}

static int plan_rope(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                     struct err *err)
{
    struct ops_null *null = null_of(ops);
    (void)spec;
    for (int i = 0; i < null->ropes_count; i++)
        if (null->rope_shapes[i].tokens >= shape->tokens &&
            null->rope_shapes[i].head_dim == shape->head_dim)
            return 0;
    if (!null->model->rope_bytes || null->ropes_count == ROPES_MAX)
        return 0;
    null->rope_shapes[null->ropes_count] = *shape;
    return reserve(ops, &null->ropes[null->ropes_count++], null->model->rope_bytes(shape), err);
}

static uint64_t attn_bwd_scratch_elements(struct ops *ops, const struct attn_shape *shape)
{
    const struct ops_null_model *model = null_of(ops)->model;
    return model->attn_bwd_scratch_elements ? model->attn_bwd_scratch_elements(shape) : 0;
}

static void gemm(struct ops *ops, const struct gemm_plan *plan, const void *a, const void *b,
                 const void *bias, void *c)
{
    (void)a, (void)b, (void)bias, (void)c;
    null_of(ops)->flops +=
        2.0 * (double)plan->shape.m * (double)plan->shape.n * (double)plan->shape.k;
}

static double attention_flops(const struct attn_shape *shape)
{
    double tokens = (double)shape->tokens;
    double pairs = shape->causal ? tokens * (tokens + 1) / 2 : tokens * tokens;
    return 2 * 2.0 * pairs * (double)(shape->batch * shape->heads * shape->head_dim);
}

static void attn_fwd(struct ops *ops, const struct attn_shape *shape, void *out, void *lse,
                     const void *qkv, const int32_t *row_starts)
{
    (void)out, (void)lse, (void)qkv, (void)row_starts;
    null_of(ops)->flops += attention_flops(shape);
}

/* The backward pass takes twice the forward operations; recomputed scores do not count. */
static void attn_bwd(struct ops *ops, const struct attn_shape *shape, void *d_qkv,
                     const void *d_out, const void *qkv, const void *out, const void *lse,
                     const int32_t *row_starts, void *scratch)
{
    (void)d_qkv, (void)d_out, (void)qkv, (void)out, (void)lse, (void)row_starts, (void)scratch;
    null_of(ops)->flops += 2 * attention_flops(shape);
}

#define NO_OP_HOOK(name, ...)                                                                      \
    static void name(struct ops *ops, __VA_ARGS__)                                                 \
    {                                                                                              \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NO_OP_HOOK(bias_bwd, void *d_bias, const void *d_out, uint64_t rows, uint64_t cols, bool accumulate)
NO_OP_HOOK(norm_fwd, const struct norm_shape *shape, void *out, void *mean, void *rstd,
           const void *x, const void *weight, const void *bias)
NO_OP_HOOK(norm_bwd, const struct norm_shape *shape, void *d_x, void *d_weight, void *d_bias,
           const void *d_out, const void *x, const void *mean, const void *rstd, const void *weight,
           bool accumulate)
NO_OP_HOOK(rope, const struct attn_shape *shape, void *qkv, const struct rope_spec *spec,
           bool backward)
NO_OP_HOOK(gelu_fwd, void *out, const void *x, uint64_t count)
NO_OP_HOOK(gelu_bwd, void *d_x, const void *d_out, const void *x, uint64_t count)
NO_OP_HOOK(swiglu_fwd, void *out, const void *gate_up, uint64_t rows, uint64_t cols)
NO_OP_HOOK(swiglu_bwd, void *d_gate_up, const void *d_out, const void *gate_up, uint64_t rows,
           uint64_t cols)
NO_OP_HOOK(add, void *out, const void *a, const void *b, uint64_t count)
NO_OP_HOOK(embed_fwd, void *out, const int32_t *ids, uint64_t id_stride, const void *table,
           const void *positions, uint64_t items, uint64_t tokens, uint64_t cols)
NO_OP_HOOK(embed_bwd, void *d_table, const void *d_out, const int32_t *ids, uint64_t id_stride,
           const int32_t *rows_by_id, uint64_t items, uint64_t tokens, uint64_t cols,
           uint64_t vocabulary, bool accumulate)
NO_OP_HOOK(positions_fwd, void *out, const void *x, const void *positions, uint64_t items,
           uint64_t rows, uint64_t cols)
NO_OP_HOOK(positions_bwd, void *d_positions, const void *d_out, uint64_t items, uint64_t rows,
           uint64_t cols, bool accumulate)
NO_OP_HOOK(patches, void *out, const uint8_t *images, uint64_t items, uint64_t side, uint64_t patch,
           const float mean[3], const float deviation[3])
NO_OP_HOOK(pool_fwd, void *out, const void *x, uint64_t items, uint64_t rows, uint64_t cols)
NO_OP_HOOK(pool_bwd, void *d_x, const void *d_out, uint64_t items, uint64_t rows, uint64_t cols)
NO_OP_HOOK(xent, const struct xent_shape *shape, void *logits, double *losses, uint8_t *correct,
           const int32_t *targets, const struct xent_mix *mix, const double *gradient_scale)
NO_OP_HOOK(tree_add, void *target, const void *source, uint64_t count)
NO_OP_HOOK(narrow, enum dtype type, void *out, const void *x, float scale, uint64_t count)
NO_OP_HOOK(widen, enum dtype type, void *out, const void *x, float scale, uint64_t count)
NO_OP_HOOK(convert_to_compute, void *compute, const void *master, uint64_t count)
NO_OP_HOOK(row_sumsq, double *sums, const void *x, uint64_t rows, uint64_t cols)
NO_OP_HOOK(add_to_exact_sum, int64_t *words, const double *terms, uint64_t count)
NO_OP_HOOK(add_flag_count, int64_t *word, const uint8_t *flags, uint64_t count)
NO_OP_HOOK(clip_gradients, struct gradient_clip *clip, const int64_t *losses,
           const int64_t *squares, const struct gradient_clip_input *input)
#pragma GCC diagnostic pop

/* Arrays in host memory are read and written over the link. */
static void count_update_traffic(struct ops *ops, const struct update_arrays *arrays)
{
    const void *const both_ways[] = {arrays->params, arrays->moment1, arrays->moment2};
    for (size_t i = 0; i < sizeof both_ways / sizeof both_ways[0]; i++)
        if (both_ways[i] && device_null_kind(both_ways[i]) != MEM_DEVICE)
            device_null_add_transfer(ops->device, 2 * arrays->count * ops_master_bytes(ops));
}

static void update(struct ops *ops, enum update_rule rule, const struct update_options *options,
                   const struct update_arrays *arrays, const struct update_scalars *scalars)
{
    (void)rule, (void)options, (void)scalars;
    count_update_traffic(ops, arrays);
}

static void numerics_id(struct ops *ops, struct str *out)
{
    (void)ops;
    str_add_text(out, "null");
}

static int status(const struct ops *ops, struct err *err)
{
    (void)ops, (void)err;
    return 0;
}

static int sync(struct ops *ops, struct err *err)
{
    return status(ops, err);
}

static void close(struct ops *ops)
{
    struct ops_null *null = null_of(ops);
    const struct device_ops *device = ops->device->ops;
    struct memory_block *blocks[] = {&null->fixed, &null->gemm, &null->rows};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        device->mem_free(ops->device, MEM_DEVICE, blocks[i]->memory, blocks[i]->bytes);
    for (int i = 0; i < null->ropes_count; i++)
        device->mem_free(ops->device, MEM_DEVICE, null->ropes[i].memory, null->ropes[i].bytes);
    if (ops->stream)
        device->stream_close(ops->device, ops->stream);
    free(null);
}

#define HOOK(name) .name = name,

static const struct ops_table null_table = {
    .name = "null", .is_simulated = true, OPS_TYPED_HOOKS(HOOK) OPS_UNTYPED_HOOKS(HOOK)};

const struct ops_null_model *ops_null_cpu(void)
{
    static const struct ops_null_model model = {.is_host = true, .logits_align = 1};
    return &model;
}

static int open_on_device(struct device *device, const struct ops_null_model *model,
                          enum dtype compute, enum dtype master, struct ops **ret_ops,
                          struct err *err)
{
    struct ops_null *null = calloc(1, sizeof *null);
    if (!null)
        return err_set(err, -ENOMEM, "out of memory for the null ops");
    null->table = null_table;
    null->table.logits_align = model->logits_align;
    null->table.embed_bwd_needs_rows_by_id = model->embed_bwd_needs_rows_by_id;
    null->model = model;
    null->ops =
        (struct ops){.table = &null->table, .device = device, .compute = compute, .master = master};
    int result = device->ops->stream_open(device, &null->ops.stream, err);
    if (!result)
        result = reserve(&null->ops, &null->fixed, model->fixed_bytes, err);
    if (result) {
        close(&null->ops);
        return result;
    }
    *ret_ops = &null->ops;
    return 0;
}

int ops_null_open(const struct ops_null_model *model, enum dtype compute, enum dtype master,
                  struct device **ret_device, struct ops **ret_ops, struct err *err)
{
    struct device *device;
    int result =
        model->is_host ? device_null_open_host(&device, err) : device_null_open(&device, err);
    if (result)
        return result;
    result = open_on_device(device, model, compute, master, ret_ops, err);
    if (result) {
        device_close(device);
        return result;
    }
    *ret_device = device;
    return 0;
}

double ops_null_flops(const struct ops *ops)
{
    return ((const struct ops_null *)ops)->flops;
}
