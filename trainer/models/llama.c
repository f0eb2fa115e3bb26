/*
 * model_llama — a language model with rotary positions, RMSNorm, grouped-query attention, SwiGLU,
 * no biases and a head of its own (Touvron et al., "LLaMA: open and efficient foundation language
 * models", 2023, and "Llama 2", 2023).
 */
#include "trainer/models/model_kind.h"

#include <math.h>

static struct block_config block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->kv_heads ? config->kv_heads : config->heads,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_RMS,
                                 .epsilon = config->norm_epsilon,
                                 .rope = true,
                                 .rope_base = config->rope_base,
                                 .swiglu = true,
                                 .causal = true,
                                 .deviation = 0.02,
                                 .residual_deviation = 0.02 / sqrt(2.0 * config->layers)};
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

static int describe_embed(struct model *model, struct err *err)
{
    const struct param_spec spec = table(&model->config, "embed.tokens.weight");
    return model_add_param(model, &spec, &model->embed_tokens, err);
}

static int describe_head(struct model *model, struct err *err)
{
    struct param_spec spec = table(&model->config, "head.weight");
    spec.room_rows = model_logits_cols(model, spec.rows) - spec.rows;
    return model_add_param(model, &spec, &model->head.weight, err);
}

const struct model_kind model_kind_llama = {language_check,          block,
                                            language_tokens,         describe_embed,
                                            describe_head,           language_plan,
                                            language_patch_elements, language_embed_forward,
                                            language_embed_backward, language_head_forward,
                                            language_head_backward,  language_flops};
