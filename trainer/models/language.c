/*
 * model_language — what language models share: tokens in, the cross-entropy of the next one out.
 * See model_kind.h.
 *
 * Where the head is the embedding's table once more, that is one logical tensor, owned by the
 * embedding, and its gradient has two contributions in a fixed order: the head's product writes,
 * then the embedding's backward pass adds.
 */
#include "trainer/models/model_kind.h"

#include <errno.h>
#include <inttypes.h>

enum { BLOCK_TOKENS_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };

/* Logits in memory at a time: some thousand rows of a large vocabulary, enough for products to run
 * at full speed. */
enum { HEAD_LOGITS_BYTES_MAX = 512 << 20 };

static int check(const struct model_config *config, struct err *err)
{
    if (config->block == 0 || config->block > BLOCK_TOKENS_MAX) {
        err_set(err, -EINVAL, "the block of a language model is out of range");
        err_expected(err, "1 to %d tokens", BLOCK_TOKENS_MAX);
        err_found(err, "%" PRIu32, config->block);
        return -EINVAL;
    }
    if (config->vocabulary == 0 || config->vocabulary > VOCABULARY_MAX) {
        err_set(err, -EINVAL, "the vocabulary of a language model is out of range");
        err_expected(err, "1 to %d", VOCABULARY_MAX);
        err_found(err, "%" PRIu32, config->vocabulary);
        return -EINVAL;
    }
    return 0;
}

static uint64_t tokens(const struct model_config *config)
{
    return config->block;
}

static struct param_spec table(const struct model_config *config, const char *name)
{
    return (struct param_spec){.name = name,
                               .rows = config->vocabulary,
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
    if (config->tied) {
        model->tied = (int64_t)model->params.count;
        spec.padding_rows = model_logits_cols(model, spec.rows) - spec.rows;
    }
    int status = model_add_param(model, &spec, &model->embed_tokens, err);
    if (status < 0 || !has_positions(model))
        return status;
    spec = table(config, "embed.positions.weight");
    spec.rows = config->block;
    return model_add_param(model, &spec, &model->embed_positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    struct param_spec spec = table(&model->config, "head.weight");
    spec.padding_rows = model_logits_cols(model, spec.rows) - spec.rows;
    return model->config.tied ? 0 : model_add_param(model, &spec, &model->head.weight, err);
}

/* The largest power of two of rows whose logits fit, or all; plan rounds it down to whole
 * items where it holds more than one. A function of shapes alone, as the bits depend on it. */
static uint64_t head_rows_at_once(const struct model *model)
{
    uint64_t row_bytes = model->logits_cols * ops_compute_bytes(model->ops), rows = 1;
    if (model->config.head_rows)
        return model->config.head_rows;
    while (rows < model->rows && 2 * rows * row_bytes <= HEAD_LOGITS_BYTES_MAX)
        rows *= 2;
    return rows;
}

static int plan_piece(struct model *model, uint64_t rows, struct model_head_piece *piece,
                      struct err *err)
{
    uint64_t width = model->config.width, cols = model->logits_cols;
    const struct gemm_shape forward = {.m = rows, .n = cols, .k = width, .trans_b = true};
    const struct gemm_shape backward_input = {.m = rows, .n = width, .k = cols};
    struct gemm_shape backward_weight = {
        .m = cols, .n = width, .k = rows, .trans_a = true, .master_output = true};
    struct ops *ops = model->ops;
    piece->rows = rows;
    int status = rows ? ops->table->plan_gemm(ops, &forward, &piece->forward, err) : 0;
    if (status == 0 && rows)
        status = ops->table->plan_gemm(ops, &backward_input, &piece->backward_input, err);
    for (int adds = 0; status == 0 && rows && adds < 2; adds++) {
        backward_weight.accumulate = adds;
        status = ops->table->plan_gemm(ops, &backward_weight, &piece->backward_weight[adds], err);
    }
    return status;
}

/* Whole items to a piece where they fit, else each item is cut. */
static uint64_t rows_of_cut(const struct model *model)
{
    return model->logits_rows < model->tokens ? model->tokens : model->rows;
}

static int plan(struct model *model, struct err *err)
{
    model->head_rows = model->rows;
    model->classes = model->config.vocabulary;
    model->logits_cols = model_logits_cols(model, model->classes);
    if (model->tied >= 0)
        model->head.weight = model->embed_tokens;
    uint64_t rows = head_rows_at_once(model);
    if (rows > model->tokens)
        rows -= rows % model->tokens;
    model->logits_rows = rows < model->rows ? rows : model->rows;
    int status = plan_piece(model, model->logits_rows, &model->piece[0], err);
    return status < 0
               ? status
               : plan_piece(model, rows_of_cut(model) % model->logits_rows, &model->piece[1], err);
}

static uint64_t patch_elements(const struct model *model)
{
    (void)model;
    return 0;
}

/* The unit that the head's weight lies in. */
static uint64_t head_unit(const struct model *model)
{
    return model->tied >= 0 ? MODEL_UNIT_EMBED : model_unit_head(model);
}

static void embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const void *weights = model_unit_weights(model, pass, MODEL_UNIT_EMBED);
    const void *positions =
        has_positions(model) ? linear_weights(ops, weights, model->embed_positions) : NULL;
    ops->table->embed_fwd(ops, hidden, pass->input->tokens, model->tokens + 1,
                          linear_weights(ops, weights, model->embed_tokens), positions,
                          model->items, model->tokens, model->config.width);
}

static void embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    const struct unit_gradients gradients = model_unit_gradients(model, pass, MODEL_UNIT_EMBED);
    void *d_tokens = linear_gradients(ops, &gradients, model->embed_tokens);
    void *d_positions =
        has_positions(model) ? linear_gradients(ops, &gradients, model->embed_positions) : NULL;
    /* a tied table holds the head's part and is added to; positions have one contribution and are
     * written */
    if (d_tokens)
        ops->table->embed_bwd(ops, d_tokens, d_hidden, pass->input->tokens, model->tokens + 1,
                              pass->input->by_token, model->items, model->tokens,
                              model->config.width, model->config.vocabulary,
                              model->tied >= 0 || model->config.adds_gradients);
    if (d_positions)
        ops->table->positions_bwd(ops, d_positions, d_hidden, model->items, model->tokens,
                                  model->config.width, model->config.adds_gradients);
}

/* The rows of the head from first on, as many as the piece has. */
struct head_job {
    const struct model_head_piece *piece;
    uint64_t first;
};

static const void *head_weight(const struct model *model, const struct model_pass *pass)
{
    return linear_weights(model->ops, model_unit_weights(model, pass, head_unit(model)),
                          model->head.weight);
}

static void *rows_at(const struct model *model, const struct model_pass *pass, uint64_t offset,
                     uint64_t row)
{
    return arena_at(pass->activations,
                    offset + row * model->config.width * ops_compute_bytes(model->ops));
}

/* The logits of a piece, and its losses. */
static void piece_losses(struct model *model, const struct model_pass *pass,
                         const struct head_job *job, const struct model_result *result,
                         const double *gradient_scale)
{
    struct ops *ops = model->ops;
    const struct model_input *input = pass->input;
    void *logits = arena_at(pass->activations, pass->layout.logits);
    uint64_t tokens = model->tokens, stride = input->targets ? tokens : tokens + 1;
    const int32_t *targets = input->targets ? input->targets : input->tokens + 1;
    bool whole_items = job->piece->rows % tokens == 0;
    ops->table->gemm(ops, &job->piece->forward,
                     rows_at(model, pass, pass->layout.normed, job->first),
                     head_weight(model, pass), NULL, logits);
    const struct xent_shape shape = {.items = whole_items ? job->piece->rows / tokens : 1,
                                     .tokens = whole_items ? tokens : job->piece->rows,
                                     .target_stride = stride,
                                     .classes = model->classes,
                                     .stride = model->logits_cols};
    ops->table->xent(ops, &shape, logits, result->losses + job->first, result->correct + job->first,
                     targets + job->first / tokens * stride + job->first % tokens, NULL,
                     gradient_scale);
}

/* The piece that begins at a row. */
static struct head_job head_job_at(const struct model *model, uint64_t first)
{
    uint64_t cut = rows_of_cut(model), left = cut - first % cut;
    return (struct head_job){&model->piece[left < model->logits_rows], first};
}

static void head_forward(struct model *model, const struct model_pass *pass,
                         const struct model_result *result)
{
    for (uint64_t row = 0; row < model->rows;) {
        const struct head_job job = head_job_at(model, row);
        piece_losses(model, pass, &job, result, NULL);
        row += job.piece->rows;
    }
}

static void head_backward(struct model *model, const struct model_pass *pass,
                          const struct model_result *result)
{
    struct ops *ops = model->ops;
    const void *logits = arena_at(pass->activations, pass->layout.logits);
    const struct unit_gradients gradients = model_unit_gradients(model, pass, head_unit(model));
    void *d_weight = linear_gradients(ops, &gradients, model->head.weight);
    bool adds = model->config.adds_gradients;
    for (uint64_t row = 0; row < model->rows;) {
        const struct head_job job = head_job_at(model, row);
        piece_losses(model, pass, &job, result, pass->input->loss_scale);
        if (d_weight)
            ops->table->gemm(ops, &job.piece->backward_weight[adds || row > 0], logits,
                             rows_at(model, pass, pass->layout.normed, row), NULL, d_weight);
        ops->table->gemm(ops, &job.piece->backward_input, logits, head_weight(model, pass), NULL,
                         rows_at(model, pass, pass->layout.d_normed, row));
        row += job.piece->rows;
    }
}

static double flops(const struct model *model)
{
    double products = 2 + model_is_trained(model, head_unit(model), model->head.weight);
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
    .head_forward = head_forward,
    .head_backward = head_backward,
    .flops = flops,
};
