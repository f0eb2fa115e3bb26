/*
 * model_language — what language models share: tokens in, the cross-entropy of the next one out. See model_kind.h.
 *
 * Where the head is the embedding's table once more, that is one logical tensor, owned by the embedding, and its gradient has two
 * contributions in a fixed order: the head's product writes, then the embedding's backward pass adds.
 */
#include "trainer/model_kind.h"

#include <errno.h>
#include <inttypes.h>

enum { BLOCK_TOKENS_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };

int language_check(const struct model_config *config, struct err *err)
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

uint64_t language_tokens(const struct model_config *config)
{
    return config->block;
}

int language_plan(struct model *model, struct err *err)
{
    model->head_rows = model->rows;
    model->classes = model->config.vocabulary;
    model->head.rows = model->rows;
    model->head.in = model->config.width;
    model->head.out = model->config.vocabulary;
    if (model->tied >= 0)
        model->head.weight = model->embed_tokens;
    return linear_plan(&model->head, model->ops, err);
}

uint64_t language_patch_elements(const struct model *model)
{
    (void)model;
    return 0;
}

static bool has_positions(const struct model *model)
{
    return !model->block.config.rope;
}

/* The group that the head's weight lies in. */
static uint64_t head_group(const struct model *model)
{
    return model->tied >= 0 ? MODEL_GROUP_EMBED : model_group_head(model);
}

void language_embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const void *weights = model_group_weights(model, pass, MODEL_GROUP_EMBED);
    const void *positions =
        has_positions(model) ? linear_weights(ops, weights, model->embed_positions) : NULL;
    ops->table->embed_fwd(ops, hidden, pass->input->tokens, model->tokens + 1,
                          linear_weights(ops, weights, model->embed_tokens), positions, model->items,
                          model->tokens, model->config.width);
}

void language_embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    void *gradients = model_group_gradients(model, pass, MODEL_GROUP_EMBED);
    /* a tied table holds the head's part and is added to; positions have one contribution and are written */
    ops->table->embed_bwd(ops, linear_gradients(ops, gradients, model->embed_tokens), NULL, d_hidden,
                          pass->input->tokens, model->tokens + 1, model->items, model->tokens,
                          model->config.width, model->config.vocabulary, model->tied >= 0);
    if (has_positions(model))
        ops->table->positions_bwd(ops, linear_gradients(ops, gradients, model->embed_positions), d_hidden,
                                  model->items, model->tokens, model->config.width, false);
}

void language_head_forward(struct model *model, const struct model_pass *pass,
                           const struct model_result *result, bool want_gradient)
{
    struct ops *ops = model->ops;
    const struct model_input *input = pass->input;
    void *logits = arena_at(pass->activations, pass->layout.logits);
    linear_forward(&model->head, ops, model_group_weights(model, pass, head_group(model)),
                   arena_at(pass->activations, pass->layout.normed), logits);
    ops->table->xent(ops, logits, result->losses, result->correct,
                     input->targets ? input->targets : input->tokens + 1, model->items, model->tokens,
                     input->targets ? model->tokens : model->tokens + 1, model->classes, want_gradient);
}

void language_head_backward(struct model *model, const struct model_pass *pass)
{
    linear_backward(&model->head, model->ops, model_group_weights(model, pass, head_group(model)),
                    arena_at(pass->activations, pass->layout.normed),
                    arena_at(pass->activations, pass->layout.logits),
                    model_group_gradients(model, pass, head_group(model)),
                    arena_at(pass->activations, pass->layout.d_normed));
}

double language_flops(const struct model *model)
{
    return linear_flops(&model->head, true);
}
