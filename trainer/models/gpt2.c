/*
 * model_gpt2 — a language model: learned positions, and a head that is the embedding's table once
 * more (Radford et al., "Language models are unsupervised multitask learners", 2019).
 */
#include "trainer/models/model_kind.h"

#include <math.h>

static struct block_config block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->heads,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_LAYER,
                                 .epsilon = 1e-5,
                                 .causal = true,
                                 .bias = true,
                                 .deviation = 0.02,
                                 .residual_deviation = 0.02 / sqrt(2.0 * config->layers)};
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
    spec.room_rows = model_logits_cols(model, spec.rows) - spec.rows;
    int status = model_add_param(model, &spec, &model->embed_tokens, err);
    spec.name = "embed.positions.weight";
    spec.rows = config->block;
    spec.room_rows = 0;
    return status < 0 ? status : model_add_param(model, &spec, &model->embed_positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    (void)model;
    (void)err;
    return 0; /* the table is the embedding's */
}

const struct model_kind model_kind_gpt2 = {language_check,          block,
                                           language_tokens,         describe_embed,
                                           describe_head,           language_plan,
                                           language_patch_elements, language_embed_forward,
                                           language_embed_backward, language_head_forward,
                                           language_head_backward,  language_flops};
