/*
 * model_gpt2 — a language model: learned positions, and a head that is the embedding's table once more (Radford et al.,
 * "Language models are unsupervised multitask learners", 2019).
 *
 * The table is one logical tensor, owned by the embedding, and its gradient has two contributions in a fixed order: the head's
 * product writes, then the embedding's backward pass adds.
 */
#include "trainer/model_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

enum { BLOCK_TOKENS_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };

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

static struct block_config block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->heads,
                                 .mlp_width = config->width * config->mlp_ratio,
                                 .norm = NORM_LAYER,
                                 .epsilon = 1e-5,
                                 .causal = true,
                                 .bias = true,
                                 .deviation = 0.02,
                                 .residual_deviation = 0.02 / sqrt(2.0 * config->layers)};
}

static uint64_t tokens(const struct model_config *config)
{
    return config->block;
}

static int describe_embed(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    struct param_spec spec = {.name = "embed.tokens.weight",
                              .rows = config->vocabulary,
                              .cols = config->width,
                              .decay = true,
                              .init = PARAM_NORMAL,
                              .deviation = 0.02};
    model->tied = (int64_t)model->params.count;
    int status = model_add_param(model, &spec, &model->embed_tokens, err);
    spec.name = "embed.positions.weight";
    spec.rows = config->block;
    return status < 0 ? status : model_add_param(model, &spec, &model->embed_positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    (void)model;
    (void)err;
    return 0; /* the table is the embedding's */
}

static int plan(struct model *model, struct err *err)
{
    model->head_rows = model->rows;
    model->classes = model->config.vocabulary;
    model->head = (struct linear){.rows = model->rows,
                                  .in = model->config.width,
                                  .out = model->config.vocabulary,
                                  .weight = model->embed_tokens};
    return linear_plan(&model->head, model->ops, err);
}

static uint64_t patch_elements(const struct model *model)
{
    (void)model;
    return 0;
}

static void embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const void *weights = model_group_weights(model, pass, MODEL_GROUP_EMBED);
    ops->table->embed_fwd(ops, hidden, pass->input->tokens, model->tokens + 1,
                          linear_weights(ops, weights, model->embed_tokens),
                          linear_weights(ops, weights, model->embed_positions), model->items, model->tokens,
                          model->config.width);
}

static void embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    void *gradients = model_group_gradients(model, pass, MODEL_GROUP_EMBED);
    void *d_table = linear_gradients(ops, gradients, model->embed_tokens);
    void *d_positions = linear_gradients(ops, gradients, model->embed_positions);
    /* d_table holds the head's part and is added to; positions have one contribution and are written */
    ops->table->embed_bwd(ops, d_table, NULL, d_hidden, pass->input->tokens, model->tokens + 1, model->items,
                          model->tokens, model->config.width, model->config.vocabulary, true);
    ops->table->positions_bwd(ops, d_positions, d_hidden, model->items, model->tokens, model->config.width,
                              false);
}

static void head_forward(struct model *model, const struct model_pass *pass,
                         const struct model_result *result, bool want_gradient)
{
    struct ops *ops = model->ops;
    const struct model_input *input = pass->input;
    void *logits = layout_at(pass->activations, pass->layout.logits);
    linear_forward(&model->head, ops, model_group_weights(model, pass, MODEL_GROUP_EMBED),
                   layout_at(pass->activations, pass->layout.normed), logits);
    ops->table->xent(ops, logits, result->losses, result->correct,
                     input->targets ? input->targets : input->tokens + 1, model->items, model->tokens,
                     input->targets ? model->tokens : model->tokens + 1, model->classes, want_gradient);
}

static void head_backward(struct model *model, const struct model_pass *pass)
{
    linear_backward(&model->head, model->ops, model_group_weights(model, pass, MODEL_GROUP_EMBED),
                    layout_at(pass->activations, pass->layout.normed),
                    layout_at(pass->activations, pass->layout.logits),
                    model_group_gradients(model, pass, MODEL_GROUP_EMBED),
                    layout_at(pass->activations, pass->layout.d_normed));
}

static double flops(const struct model *model)
{
    return linear_flops(&model->head, true);
}

const struct model_kind model_kind_gpt2 = {check,          block,        tokens,         describe_embed,
                                           describe_head,  plan,         patch_elements, embed_forward,
                                           embed_backward, head_forward, head_backward,  flops};
