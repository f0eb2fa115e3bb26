/*
 * language — embedding and head of language models, trained on the cross-entropy of the next token.
 *
 * The embedding owns a shared table. The table's gradient has two terms in a fixed order: the
 * head's product writes the first, then the embedding's backward pass adds the second.
 */
#include "trainer/models/model_kind.h"

enum { BLOCK_TOKENS_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };

/* Limit for logits: a few thousand rows of a large vocabulary, enough for full-speed products. */
enum { HEAD_LOGITS_BYTES_MAX = 512 << 20 };

static int check(const struct model_config *config, struct err *err)
{
    const struct language_config *language = &config->language;
    int status = model_check_limit("block", language->block, BLOCK_TOKENS_MAX, err);
    return status ? status
                  : model_check_limit("vocabulary", language->vocabulary, VOCABULARY_MAX, err);
}

static uint64_t tokens(const struct model_config *config)
{
    return config->language.block;
}

static struct param_spec table(const struct model_config *config, const char *name)
{
    return (struct param_spec){.name = name,
                               .rows = config->language.vocabulary,
                               .cols = config->width,
                               .decay = true,
                               .init = PARAM_NORMAL,
                               .deviation = 0.02};
}

static bool has_positions(const struct model *model)
{
    return !model->kind->is_rotary;
}

static int describe_embed(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    struct param_spec spec = table(config, "embed.tokens.weight");
    if (config->language.tied) {
        model->tied = (int64_t)model->params.count;
        spec.padding_rows = model_logits_cols(model, spec.rows) - spec.rows;
    }
    int status = model_add_param(model, &spec, &model->language.token_table, err);
    if (status < 0 || !has_positions(model))
        return status;
    spec = table(config, "embed.positions.weight");
    spec.rows = config->language.block;
    return model_add_param(model, &spec, &model->language.positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    struct param_spec spec = table(&model->config, "head.weight");
    spec.padding_rows = model_logits_cols(model, spec.rows) - spec.rows;
    return model->config.language.tied
               ? 0
               : model_add_param(model, &spec, &model->language.head_weight, err);
}

/* The largest power-of-two number of rows whose logits fit, or all rows; plan rounds it down to
 * whole items. Result bits depend on it, so it depends only on shapes. */
static uint64_t logits_rows_max(const struct model *model)
{
    uint64_t row_bytes = model->logits_cols * ops_compute_bytes(model->ops), rows = 1;
    if (model->config.language.head_rows)
        return model->config.language.head_rows;
    while (rows < model->rows && 2 * rows * row_bytes <= HEAD_LOGITS_BYTES_MAX)
        rows *= 2;
    return rows;
}

static int plan_chunk(struct model *model, uint64_t rows, struct head_chunk *chunk, struct err *err)
{
    uint64_t width = model->config.width, cols = model->logits_cols;
    const struct gemm_shape forward = {.m = rows, .n = cols, .k = width, .trans_b = true};
    const struct gemm_shape backward_input = {.m = rows, .n = width, .k = cols};
    struct gemm_shape backward_weight = {
        .m = cols, .n = width, .k = rows, .trans_a = true, .master_output = true};
    struct ops *ops = model->ops;
    chunk->rows = rows;
    int status = rows ? ops->table->plan_gemm(ops, &forward, &chunk->forward, err) : 0;
    if (status == 0 && rows)
        status = ops->table->plan_gemm(ops, &backward_input, &chunk->backward_input, err);
    for (int adds = 0; status == 0 && rows && adds < 2; adds++) {
        backward_weight.accumulate = adds;
        status = ops->table->plan_gemm(ops, &backward_weight, &chunk->backward_weight[adds], err);
    }
    return status;
}

/* The rows to divide into chunks: all, or those of one item if an item exceeds a chunk. */
static uint64_t chunked_rows(const struct model *model)
{
    return model->logits_rows < model->tokens ? model->tokens : model->rows;
}

static int plan(struct model *model, struct err *err)
{
    model->head_rows = model->rows;
    model->classes = model->config.language.vocabulary;
    model->logits_cols = model_logits_cols(model, model->classes);
    if (model->tied >= 0)
        model->language.head_weight = model->language.token_table;
    uint64_t rows = logits_rows_max(model);
    if (rows > model->tokens)
        rows -= rows % model->tokens;
    model->logits_rows = rows < model->rows ? rows : model->rows;
    int status = plan_chunk(model, model->logits_rows, &model->language.chunks[0], err);
    return status < 0 ? status
                      : plan_chunk(model, chunked_rows(model) % model->logits_rows,
                                   &model->language.chunks[1], err);
}

static uint64_t patch_elements(const struct model *model)
{
    (void)model;
    return 0;
}

static uint64_t head_unit(const struct model *model)
{
    return model->tied >= 0 ? MODEL_UNIT_EMBED : model_unit_head(model);
}

static void embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const void *weights = model_unit_weights(model, pass, MODEL_UNIT_EMBED);
    const void *positions =
        has_positions(model) ? linear_weights(ops, weights, model->language.positions) : NULL;
    ops->table->embed_fwd(ops, hidden, pass->input->language.tokens, model->tokens + 1,
                          linear_weights(ops, weights, model->language.token_table), positions,
                          model->items, model->tokens, model->config.width);
}

static void embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    const struct unit_gradients gradients = model_unit_gradients(model, pass, MODEL_UNIT_EMBED);
    void *d_tokens = linear_gradients(ops, &gradients, model->language.token_table);
    void *d_positions =
        has_positions(model) ? linear_gradients(ops, &gradients, model->language.positions) : NULL;
    /* a tied table's gradient already holds the head's term */
    if (d_tokens)
        ops->table->embed_bwd(ops, d_tokens, d_hidden, pass->input->language.tokens,
                              model->tokens + 1, pass->input->language.rows_by_token, model->items,
                              model->tokens, model->config.width, model->config.language.vocabulary,
                              model->tied >= 0 || model->config.adds_gradients);
    if (d_positions)
        ops->table->positions_bwd(ops, d_positions, d_hidden, model->items, model->tokens,
                                  model->config.width, model->config.adds_gradients);
}

static const void *head_weight(const struct model *model, const struct model_pass *pass)
{
    return linear_weights(model->ops, model_unit_weights(model, pass, head_unit(model)),
                          model->language.head_weight);
}

static void *rows_at(const struct model *model, const struct model_pass *pass, uint64_t offset,
                     uint64_t row)
{
    return arena_at(pass->activations,
                    offset + row * model->config.width * ops_compute_bytes(model->ops));
}

/* Computes the logits and losses of the chunk that begins at row `first`. */
static void chunk_losses(struct model *model, const struct model_pass *pass,
                         const struct head_chunk *chunk, uint64_t first,
                         const struct model_result *result, const double *gradient_scale)
{
    struct ops *ops = model->ops;
    const struct language_input *input = &pass->input->language;
    void *logits = arena_at(pass->activations, pass->layout.logits);
    uint64_t tokens = model->tokens, stride = input->targets ? tokens : tokens + 1;
    const int32_t *targets = input->targets ? input->targets : input->tokens + 1;
    bool whole_items = chunk->rows % tokens == 0;
    ops->table->gemm(ops, &chunk->forward, rows_at(model, pass, pass->layout.normed, first),
                     head_weight(model, pass), NULL, logits);
    const struct xent_shape shape = {.items = whole_items ? chunk->rows / tokens : 1,
                                     .tokens = whole_items ? tokens : chunk->rows,
                                     .target_stride = stride,
                                     .classes = model->classes,
                                     .stride = model->logits_cols};
    ops->table->xent(ops, &shape, logits, result->losses + first, result->correct + first,
                     targets + first / tokens * stride + first % tokens, NULL, gradient_scale);
}

static void chunk_backward(struct model *model, const struct model_pass *pass,
                           const struct head_chunk *chunk, uint64_t first)
{
    struct ops *ops = model->ops;
    const void *logits = arena_at(pass->activations, pass->layout.logits);
    const struct unit_gradients gradients = model_unit_gradients(model, pass, head_unit(model));
    void *d_weight = linear_gradients(ops, &gradients, model->language.head_weight);
    bool adds = model->config.adds_gradients || first > 0;
    if (d_weight)
        ops->table->gemm(ops, &chunk->backward_weight[adds], logits,
                         rows_at(model, pass, pass->layout.normed, first), NULL, d_weight);
    ops->table->gemm(ops, &chunk->backward_input, logits, head_weight(model, pass), NULL,
                     rows_at(model, pass, pass->layout.d_normed, first));
}

static void head(struct model *model, const struct model_pass *pass,
                 const struct model_result *result, const double *gradient_scale)
{
    uint64_t divided = chunked_rows(model);
    for (uint64_t row = 0; row < model->rows;) {
        bool is_last = divided - row % divided < model->logits_rows;
        const struct head_chunk *chunk = &model->language.chunks[is_last];
        chunk_losses(model, pass, chunk, row, result, gradient_scale);
        if (gradient_scale)
            chunk_backward(model, pass, chunk, row);
        row += chunk->rows;
    }
}

static double flops(const struct model *model)
{
    double products = 2 + model_is_trained(model, head_unit(model), model->language.head_weight);
    return 2 * products * (double)model->rows * (double)model->config.width *
           (double)model->classes;
}

const struct model_task model_task_language = {
    .check = check,
    .tokens = tokens,
    .describe_embed = describe_embed,
    .describe_head = describe_head,
    .plan = plan,
    .patch_elements = patch_elements,
    .embed_forward = embed_forward,
    .embed_backward = embed_backward,
    .head = head,
    .flops = flops,
};
