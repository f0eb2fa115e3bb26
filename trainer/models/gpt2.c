/*
 * gpt2 — a language model with learned positions and a tied embedding (Radford et al., "Language
 * models are unsupervised multitask learners", 2019).
 */
#include "trainer/models/model_kind.h"

#include <math.h>

static struct block_config block(const struct model_config *config)
{
    struct block_config block = model_classic_block(config);
    block.epsilon = 1e-5;
    block.causal = true;
    block.deviation = 0.02;
    block.residual_deviation = 0.02 / sqrt(2.0 * config->layers);
    return block;
}

static const struct hf_tensor_map hf_model_tensors[] = {
    {"embed.tokens.weight", "transformer.wte.weight"},
    {"embed.positions.weight", "transformer.wpe.weight"},
    {"norm.weight", "transformer.ln_f.weight"},
    {"norm.bias", "transformer.ln_f.bias"},
    {0},
};

static const struct hf_tensor_map hf_block_tensors[] = {
    {"norm1.weight", "ln_1.weight"},
    {"norm1.bias", "ln_1.bias"},
    {"attn.q.weight", "attn.c_attn.weight", true, 0, 3},
    {"attn.k.weight", "attn.c_attn.weight", true, 1, 3},
    {"attn.v.weight", "attn.c_attn.weight", true, 2, 3},
    {"attn.q.bias", "attn.c_attn.bias", false, 0, 3},
    {"attn.k.bias", "attn.c_attn.bias", false, 1, 3},
    {"attn.v.bias", "attn.c_attn.bias", false, 2, 3},
    {"attn.proj.weight", "attn.c_proj.weight", true},
    {"attn.proj.bias", "attn.c_proj.bias"},
    {"norm2.weight", "ln_2.weight"},
    {"norm2.bias", "ln_2.bias"},
    {"mlp.fc.weight", "mlp.c_fc.weight", true},
    {"mlp.fc.bias", "mlp.c_fc.bias"},
    {"mlp.proj.weight", "mlp.c_proj.weight", true},
    {"mlp.proj.bias", "mlp.c_proj.bias"},
    {0},
};

static const struct hf_entry hf_entries[] = {
    {"activation_function", HF_TEXT, "gelu_new"},
    {"layer_norm_epsilon", HF_REAL, HF_FIELD(norm_epsilon), .default_value = 1e-5},
    {"n_embd", HF_COUNT, HF_FIELD(width)},
    {"n_head", HF_COUNT, HF_FIELD(heads), .is_checked = true, .default_value = 12},
    {"n_inner", HF_COUNT, HF_FIELD(mlp_width)},
    {"n_layer", HF_COUNT, HF_FIELD(layers), .is_checked = true, .default_value = 12},
    {"n_positions", HF_COUNT, HF_FIELD(positions)},
    {"tie_word_embeddings", HF_TIED, .flag = true},
    {"vocab_size", HF_COUNT, HF_FIELD(vocabulary)},
    {"bos_token_id", HF_DOCUMENT_END},
    {"eos_token_id", HF_DOCUMENT_END},
    {NULL, HF_END},
};

static const struct hf_model hf_gpt2 = {.type = "gpt2",
                                        .architecture = "GPT2LMHeadModel",
                                        .block_prefix = "transformer.h",
                                        .model_tensors = hf_model_tensors,
                                        .block_tensors = hf_block_tensors,
                                        .entries = hf_entries};

const struct model_kind model_kind_gpt2 = {
    .task = &model_task_language,
    .block = block,
    .is_tied = true,
    .hf_models = (const struct hf_model *const[]){&hf_gpt2, NULL},
};
