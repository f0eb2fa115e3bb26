/*
 * block — see block.h.
 */
#include "trainer/models/block.h"

#include "trainer/ops/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static uint64_t head_dim(const struct block_config *config)
{
    return config->head_dim ? config->head_dim : config->width / config->heads;
}

static uint64_t q_width(const struct block_config *config)
{
    return config->heads * head_dim(config);
}

static uint64_t kv_width(const struct block_config *config)
{
    return config->kv_heads * head_dim(config);
}

static int check_config(const struct block_config *config, const char *name, struct err *err)
{
    if (config->width == 0 || config->heads == 0 || config->kv_heads == 0 ||
        config->mlp_width == 0) {
        err_set(err, -EINVAL, "a width or number of heads of %s is zero", name);
        return -EINVAL;
    }
    if (config->head_dim == 0 && config->width % config->heads != 0) {
        err_set(err, -EINVAL, "the width of %s is not divisible by its number of heads", name);
        err_expected(err, "a multiple of %" PRIu32, config->heads);
        err_found(err, "%" PRIu32, config->width);
        return -EINVAL;
    }
    if (config->heads % config->kv_heads != 0) {
        err_set(err, -EINVAL,
                "the number of heads of %s is not divisible by that of key-value heads", name);
        err_expected(err, "a multiple of %" PRIu32, config->kv_heads);
        err_found(err, "%" PRIu32, config->heads);
        return -EINVAL;
    }
    if (config->rope && head_dim(config) % 2 != 0) {
        err_set(err, -EINVAL, "rotary positions do not support the odd head dimension of %s", name);
        err_expected(err, "an even head dimension");
        err_found(err, "%" PRIu64, head_dim(config));
        return -EINVAL;
    }
    if (config->qk_norm && head_dim(config) > NORM_IN_PLACE_COLS_MAX) {
        err_set(err, -EINVAL, "the head dimension of %s is too large for norms of q and k", name);
        err_expected(err, "a head dimension of at most %d", NORM_IN_PLACE_COLS_MAX);
        err_found(err, "%" PRIu64, head_dim(config));
        return -EINVAL;
    }
    return 0;
}

/* Adds nothing after a failure. */
struct param_builder {
    const struct block_config *config;
    struct params *params;
    const char *name;
    uint64_t unit_offset;
    int status;
    struct err *err;
};

static uint64_t add_param(struct param_builder *builder, const char *name, struct param_spec spec)
{
    char full[2 * PARAMS_NAME_BYTES_MAX];
    if (builder->status < 0)
        return 0;
    snprintf(full, sizeof full, "%s.%s", builder->name, name);
    uint64_t index = 0;
    spec.name = full;
    builder->status = params_add(builder->params, &spec, &index, builder->err);
    return builder->status < 0 ? 0 : builder->params->list[index].offset - builder->unit_offset;
}

static uint64_t add_matrix(struct param_builder *b, const char *name, uint64_t out, uint64_t in,
                           bool neighbor, double deviation)
{
    return add_param(b, name,
                     (struct param_spec){.rows = out,
                                         .cols = in,
                                         .neighbor = neighbor,
                                         .decay = true,
                                         .init = PARAM_NORMAL,
                                         .deviation = deviation});
}

static uint64_t add_bias(struct param_builder *b, const char *name, uint64_t rows, bool neighbor)
{
    return add_param(b, name,
                     (struct param_spec){.rows = rows, .neighbor = neighbor, .init = PARAM_ZEROS});
}

static void add_norm(struct param_builder *b, const char *weight, const char *bias,
                     uint64_t *ret_weight, uint64_t *ret_bias)
{
    uint64_t width = b->config->width;
    *ret_weight = add_param(b, weight, (struct param_spec){.rows = width, .init = PARAM_ONES});
    if (b->config->norm == NORM_LAYER)
        *ret_bias = add_param(b, bias, (struct param_spec){.rows = width, .init = PARAM_ZEROS});
}

static void add_attention(struct param_builder *b, struct block_offsets *o)
{
    const struct block_config *config = b->config;
    uint64_t width = config->width, q = q_width(config), kv = kv_width(config);
    o->qkv_weight = add_matrix(b, "attn.q.weight", q, width, false, config->deviation);
    add_matrix(b, "attn.k.weight", kv, width, true, config->deviation);
    add_matrix(b, "attn.v.weight", kv, width, true, config->deviation);
    if (config->bias || config->qkv_bias) {
        o->qkv_bias = add_bias(b, "attn.q.bias", q, false);
        add_bias(b, "attn.k.bias", kv, true);
        add_bias(b, "attn.v.bias", kv, true);
    }
    if (config->qk_norm) {
        const struct param_spec weight = {.rows = head_dim(config), .init = PARAM_ONES};
        o->q_norm_weight = add_param(b, "attn.q_norm.weight", weight);
        o->k_norm_weight = add_param(b, "attn.k_norm.weight", weight);
    }
    o->attn_proj_weight =
        add_matrix(b, "attn.proj.weight", width, q, false, config->residual_deviation);
    if (config->bias)
        o->attn_proj_bias = add_bias(b, "attn.proj.bias", width, false);
}

static void add_mlp(struct param_builder *b, struct block_offsets *o)
{
    const struct block_config *config = b->config;
    uint64_t width = config->width, mlp = config->mlp_width;
    if (config->swiglu) {
        o->up_weight = add_matrix(b, "mlp.gate.weight", mlp, width, false, config->deviation);
        add_matrix(b, "mlp.up.weight", mlp, width, true, config->deviation);
        if (config->bias) {
            o->up_bias = add_bias(b, "mlp.gate.bias", mlp, false);
            add_bias(b, "mlp.up.bias", mlp, true);
        }
    } else {
        o->up_weight = add_matrix(b, "mlp.fc.weight", mlp, width, false, config->deviation);
        if (config->bias)
            o->up_bias = add_bias(b, "mlp.fc.bias", mlp, false);
    }
    o->mlp_proj_weight =
        add_matrix(b, "mlp.proj.weight", width, mlp, false, config->residual_deviation);
    if (config->bias)
        o->mlp_proj_bias = add_bias(b, "mlp.proj.bias", width, false);
}

int block_describe(const struct block_config *config, struct params *params, const char *name,
                   struct block_offsets *ret_offsets, struct err *err)
{
    int status = check_config(config, name, err);
    if (status == 0)
        status = params_begin_unit(params, name, err);
    if (status < 0)
        return status;
    struct block_offsets offsets = {0};
    struct param_builder b = {config, params, name, params->units[params->units_count - 1].offset,
                              0,      err};
    add_norm(&b, "norm1.weight", "norm1.bias", &offsets.norm1_weight, &offsets.norm1_bias);
    add_attention(&b, &offsets);
    add_norm(&b, "norm2.weight", "norm2.bias", &offsets.norm2_weight, &offsets.norm2_bias);
    add_mlp(&b, &offsets);
    if (b.status < 0)
        return b.status;
    *ret_offsets = offsets;
    return 0;
}

static void lay_out_saved(struct block *block)
{
    const struct block_config *config = &block->config;
    struct arena_layout l = {0};
    size_t compute = ops_compute_bytes(block->ops), master = ops_master_bytes(block->ops);
    uint64_t rows = block->rows, stream = rows * config->width;
    struct block_saved_offsets *s = &block->saved;
    s->normed1 = arena_take(&l, stream, compute);
    s->mean1 = arena_take(&l, rows, master);
    s->rstd1 = arena_take(&l, rows, master);
    s->qkv = arena_take(&l, rows * block->qkv.out, compute);
    s->heads_out = arena_take(&l, rows * q_width(config), compute);
    s->lse = arena_take(&l, rows * config->heads, master);
    s->middle = arena_take(&l, stream, compute);
    s->normed2 = arena_take(&l, stream, compute);
    s->mean2 = arena_take(&l, rows, master);
    s->rstd2 = arena_take(&l, rows, master);
    s->hidden = arena_take(&l, rows * block->up.out, compute);
    s->activated = arena_take(&l, rows * config->mlp_width, compute);
    if (config->qk_norm) {
        s->raw_qkv = arena_take(&l, rows * block->qkv.out, compute);
        s->q_rstd = arena_take(&l, block->q_norm.rows, master);
        s->k_rstd = arena_take(&l, block->k_norm.rows, master);
    }
    block->saved_bytes = l.bytes;
}

static void lay_out_scratch(struct block *block)
{
    struct arena_layout mlp = {0}, attention = {0};
    struct ops *ops = block->ops;
    size_t compute = ops_compute_bytes(ops);
    uint64_t rows = block->rows, stream = rows * block->config.width;
    struct block_scratch *s = &block->scratch;
    s->d_activated = arena_take(&mlp, rows * block->config.mlp_width, compute);
    s->d_hidden = arena_take(&mlp, rows * block->up.out, compute);
    s->d_normed2 = arena_take(&mlp, stream, compute);
    s->d_heads_out = arena_take(&attention, rows * q_width(&block->config), compute);
    s->d_qkv = arena_take(&attention, rows * block->qkv.out, compute);
    uint64_t elements = ops->table->attn_bwd_scratch_elements(ops, &block->attention);
    s->attention = arena_take(&attention, elements, ops_master_bytes(ops));
    s->d_normed1 = arena_take(&attention, stream, compute);
    uint64_t bytes = mlp.bytes > attention.bytes ? mlp.bytes : attention.bytes;
    struct arena_layout both = {bytes};
    uint64_t width = block->config.width, dim = head_dim(&block->config);
    s->d_frozen = arena_take(&both, 2 * (dim > width ? dim : width), ops_master_bytes(ops));
    block->scratch_bytes = both.bytes;
}

int block_plan(struct block *block, const struct block_config *config,
               const struct block_offsets *offsets, struct ops *ops, uint64_t items,
               uint64_t tokens, struct err *err)
{
    uint64_t rows = items * tokens, width = config->width, mlp = config->mlp_width;
    uint64_t q = q_width(config), qkv = q + 2 * kv_width(config), dim = head_dim(config);
    bool bias = config->bias;
    struct block plan = {.config = *config, .ops = ops, .rows = rows, .offsets = *offsets};
    plan.norm = (struct norm_shape){
        .kind = config->norm, .rows = rows, .cols = width, .epsilon = config->epsilon};
    plan.q_norm = plan.k_norm = (struct norm_shape){
        .kind = NORM_RMS, .cols = dim, .epsilon = config->epsilon, .group_stride = qkv};
    plan.q_norm.rows = rows * (plan.q_norm.group_rows = config->heads);
    plan.k_norm.rows = rows * (plan.k_norm.group_rows = config->kv_heads);
    plan.attention =
        (struct attn_shape){items, tokens, config->heads, config->kv_heads, dim, config->causal};
    plan.rope = (struct rope_spec){config->rope_base, config->rope_scaling};
    plan.qkv = (struct linear){
        rows, width, qkv, offsets->qkv_weight, offsets->qkv_bias, bias || config->qkv_bias};
    plan.attn_proj =
        (struct linear){rows, q, width, offsets->attn_proj_weight, offsets->attn_proj_bias, bias};
    plan.up = (struct linear){
        rows, width, config->swiglu ? 2 * mlp : mlp, offsets->up_weight, offsets->up_bias, bias};
    plan.mlp_proj =
        (struct linear){rows, mlp, width, offsets->mlp_proj_weight, offsets->mlp_proj_bias, bias};
    struct linear *const products[] = {&plan.qkv, &plan.attn_proj, &plan.up, &plan.mlp_proj};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        products[i]->adds_gradients = config->adds_gradients;
        int status = linear_plan(products[i], ops, err);
        if (status < 0)
            return status;
    }
    int status = ops->table->plan_attn(ops, &plan.attention, err);
    if (status == 0 && config->rope)
        status = ops->table->plan_rope(ops, &plan.attention, &plan.rope, err);
    if (status == 0) /* norms and the embedding */
        status = ops->table->plan_rows(ops, rows, width, err);
    if (status == 0 && config->qk_norm)
        status = ops->table->plan_rows(ops, plan.q_norm.rows, dim, err);
    if (status < 0)
        return status;
    lay_out_saved(&plan);
    lay_out_scratch(&plan);
    *block = plan;
    return 0;
}

static void norm_forward(const struct block *block, const void *weights, uint64_t weight,
                         uint64_t bias, const void *x, void *out, void *mean, void *rstd)
{
    struct ops *ops = block->ops;
    bool layer = block->config.norm == NORM_LAYER;
    ops->table->norm_fwd(ops, &block->norm, out, mean, rstd, x,
                         linear_weights(ops, weights, weight),
                         layer ? linear_weights(ops, weights, bias) : NULL);
}

/* Adds to d_x, which holds the gradient of the residual path. d_frozen receives the gradients of
 * frozen parameters. */
static void norm_backward(const struct block *block, const void *weights,
                          const struct unit_gradients *gradients, uint64_t weight, uint64_t bias,
                          const void *d_out, const void *x, const void *mean, const void *rstd,
                          void *d_frozen, void *d_x)
{
    struct ops *ops = block->ops;
    bool layer = block->config.norm == NORM_LAYER;
    void *d_weight = linear_gradients(ops, gradients, weight);
    void *d_bias = layer ? linear_gradients(ops, gradients, bias) : NULL;
    if (!d_weight)
        d_weight = d_frozen;
    if (layer && !d_bias)
        d_bias = (char *)d_frozen + block->config.width * ops_master_bytes(ops);
    ops->table->norm_bwd(ops, &block->norm, d_x, d_weight, d_bias, d_out, x, mean, rstd,
                         linear_weights(ops, weights, weight), block->config.adds_gradients);
}

static void *element_at(const struct block *block, void *array, uint64_t element)
{
    return (char *)array + element * ops_compute_bytes(block->ops);
}

/* Saves qkv, then normalizes its q and k in place. */
static void qk_norm_forward(const struct block *block, const void *weights, void *saved, void *qkv)
{
    struct ops *ops = block->ops;
    const struct block_offsets *o = &block->offsets;
    const struct block_saved_offsets *s = &block->saved;
    void *raw = arena_at(saved, s->raw_qkv);
    uint64_t k = q_width(&block->config);
    ops->table->pool_bwd(ops, raw, qkv, block->rows, 1, block->qkv.out);
    ops->table->norm_fwd(ops, &block->q_norm, qkv, NULL, arena_at(saved, s->q_rstd), raw,
                         linear_weights(ops, weights, o->q_norm_weight), NULL);
    ops->table->norm_fwd(ops, &block->k_norm, element_at(block, qkv, k), NULL,
                         arena_at(saved, s->k_rstd), element_at(block, raw, k),
                         linear_weights(ops, weights, o->k_norm_weight), NULL);
}

/* d_qkv: the gradient of the norms' outputs, replaced by that of their inputs. */
static void qk_norm_backward(const struct block *block, const void *weights, void *saved,
                             const struct unit_gradients *gradients, void *d_frozen, void *d_qkv)
{
    struct ops *ops = block->ops;
    const struct block_offsets *o = &block->offsets;
    const struct block_saved_offsets *s = &block->saved;
    uint64_t k = q_width(&block->config);
    void *raw = arena_at(saved, s->raw_qkv);
    void *d_q_weight = linear_gradients(ops, gradients, o->q_norm_weight);
    void *d_k_weight = linear_gradients(ops, gradients, o->k_norm_weight);
    bool adds = block->config.adds_gradients;
    ops->table->norm_bwd(ops, &block->q_norm, d_qkv, d_q_weight ? d_q_weight : d_frozen, NULL, NULL,
                         raw, NULL, arena_at(saved, s->q_rstd),
                         linear_weights(ops, weights, o->q_norm_weight), adds);
    ops->table->norm_bwd(ops, &block->k_norm, element_at(block, d_qkv, k),
                         d_k_weight ? d_k_weight : d_frozen, NULL, NULL, element_at(block, raw, k),
                         NULL, arena_at(saved, s->k_rstd),
                         linear_weights(ops, weights, o->k_norm_weight), adds);
}

void block_forward(const struct block *block, const void *weights, void *saved, const void *x,
                   const int32_t *row_starts, void *out)
{
    struct ops *ops = block->ops;
    const struct ops_table *table = ops->table;
    const struct block_config *config = &block->config;
    const struct block_offsets *o = &block->offsets;
    const struct block_saved_offsets *s = &block->saved;
    uint64_t stream = block->rows * config->width;
    void *normed1 = arena_at(saved, s->normed1), *qkv = arena_at(saved, s->qkv);
    void *heads_out = arena_at(saved, s->heads_out), *middle = arena_at(saved, s->middle);
    void *normed2 = arena_at(saved, s->normed2), *hidden = arena_at(saved, s->hidden);
    void *activated = arena_at(saved, s->activated);

    norm_forward(block, weights, o->norm1_weight, o->norm1_bias, x, normed1,
                 arena_at(saved, s->mean1), arena_at(saved, s->rstd1));
    linear_forward(&block->qkv, ops, weights, normed1, qkv);
    if (config->qk_norm)
        qk_norm_forward(block, weights, saved, qkv);
    if (config->rope)
        table->rope(ops, &block->attention, qkv, &block->rope, false);
    table->attn_fwd(ops, &block->attention, heads_out, arena_at(saved, s->lse), qkv, row_starts);
    linear_forward(&block->attn_proj, ops, weights, heads_out, middle);
    table->add(ops, middle, middle, x, stream);

    norm_forward(block, weights, o->norm2_weight, o->norm2_bias, middle, normed2,
                 arena_at(saved, s->mean2), arena_at(saved, s->rstd2));
    linear_forward(&block->up, ops, weights, normed2, hidden);
    if (config->swiglu)
        table->swiglu_fwd(ops, activated, hidden, block->rows, config->mlp_width);
    else
        table->gelu_fwd(ops, activated, hidden, block->rows * config->mlp_width);
    linear_forward(&block->mlp_proj, ops, weights, activated, out);
    table->add(ops, out, out, middle, stream);
}

static void mlp_backward(const struct block *block, const void *weights, void *saved, void *scratch,
                         const struct unit_gradients *gradients, void *d)
{
    struct ops *ops = block->ops;
    const struct block_config *config = &block->config;
    const struct block_saved_offsets *s = &block->saved;
    void *d_activated = arena_at(scratch, block->scratch.d_activated);
    void *d_hidden = arena_at(scratch, block->scratch.d_hidden);
    void *d_normed = arena_at(scratch, block->scratch.d_normed2);
    void *hidden = arena_at(saved, s->hidden);

    linear_backward(&block->mlp_proj, ops, weights, arena_at(saved, s->activated), d, gradients,
                    d_activated);
    if (config->swiglu)
        ops->table->swiglu_bwd(ops, d_hidden, d_activated, hidden, block->rows, config->mlp_width);
    else
        ops->table->gelu_bwd(ops, d_hidden, d_activated, hidden, block->rows * config->mlp_width);
    linear_backward(&block->up, ops, weights, arena_at(saved, s->normed2), d_hidden, gradients,
                    d_normed);
    norm_backward(block, weights, gradients, block->offsets.norm2_weight, block->offsets.norm2_bias,
                  d_normed, arena_at(saved, s->middle), arena_at(saved, s->mean2),
                  arena_at(saved, s->rstd2), arena_at(scratch, block->scratch.d_frozen), d);
}

static void attention_backward(const struct block *block, const void *weights, void *saved,
                               const void *x, const int32_t *row_starts, void *scratch,
                               const struct unit_gradients *gradients, void *d)
{
    struct ops *ops = block->ops;
    const struct block_saved_offsets *s = &block->saved;
    void *d_heads_out = arena_at(scratch, block->scratch.d_heads_out),
         *d_qkv = arena_at(scratch, block->scratch.d_qkv);
    void *d_normed = arena_at(scratch, block->scratch.d_normed1),
         *heads_out = arena_at(saved, s->heads_out);

    linear_backward(&block->attn_proj, ops, weights, heads_out, d, gradients, d_heads_out);
    ops->table->attn_bwd(ops, &block->attention, d_qkv, d_heads_out, arena_at(saved, s->qkv),
                         heads_out, arena_at(saved, s->lse), row_starts,
                         arena_at(scratch, block->scratch.attention));
    if (block->config.rope)
        ops->table->rope(ops, &block->attention, d_qkv, &block->rope, true);
    if (block->config.qk_norm)
        qk_norm_backward(block, weights, saved, gradients,
                         arena_at(scratch, block->scratch.d_frozen), d_qkv);
    linear_backward(&block->qkv, ops, weights, arena_at(saved, s->normed1), d_qkv, gradients,
                    d_normed);
    norm_backward(block, weights, gradients, block->offsets.norm1_weight, block->offsets.norm1_bias,
                  d_normed, x, arena_at(saved, s->mean1), arena_at(saved, s->rstd1),
                  arena_at(scratch, block->scratch.d_frozen), d);
}

void block_backward(const struct block *block, const void *weights, void *saved, const void *x,
                    const int32_t *row_starts, void *scratch,
                    const struct unit_gradients *gradients, void *d)
{
    mlp_backward(block, weights, saved, scratch, gradients, d);
    attention_backward(block, weights, saved, x, row_starts, scratch, gradients, d);
}

double block_flops(const struct block *block, const struct params *params, uint64_t unit,
                   bool backward)
{
    const struct linear *const products[] = {&block->qkv, &block->attn_proj, &block->up,
                                             &block->mlp_proj};
    const struct attn_shape *a = &block->attention;
    /* scores and their product with v: 2 flops per multiply-add forward, twice that backward;
     * causal: only the lower triangle */
    double pairs = a->causal ? (double)a->tokens * (double)(a->tokens + 1) / 2
                             : (double)a->tokens * (double)a->tokens;
    double flops =
        (backward ? 12.0 : 4.0) * (double)a->batch * (double)(a->heads * a->head_dim) * pairs;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        uint64_t trained_offset;
        bool is_trained = params_trained_offset(params, unit, products[i]->weight, &trained_offset);
        flops += linear_flops(products[i], 1 + backward + (backward && is_trained));
    }
    return flops;
}
