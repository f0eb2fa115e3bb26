/*
 * llama — a language model with rotary positions, RMSNorm, grouped-query attention, SwiGLU and no
 * biases (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, and "Llama
 * 2", 2023; Grattafiori et al., "The Llama 3 Herd of Models", 2024).
 */
#include "trainer/models/model_kind.h"

#include <math.h>

struct block_config model_llama_block(const struct model_config *config)
{
    const struct language_config *language = &config->language;
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads =
                                     language->kv_heads ? language->kv_heads : config->heads,
                                 .head_dim = language->head_dim,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_RMS,
                                 .epsilon = language->norm_epsilon,
                                 .rope = true,
                                 .rope_base = language->rope_base,
                                 .rope_scaling = language->rope_scaling,
                                 .swiglu = true,
                                 .causal = true,
                                 .deviation = 0.02,
                                 .residual_deviation = 0.02 / sqrt(2.0 * config->layers)};
}

const struct hf_tensor_map model_llama_tensors[] = {
    {"embed.tokens.weight", "model.embed_tokens.weight"},
    {"norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight"},
    {0},
};

const struct hf_tensor_map model_llama_block_tensors[] = {
    {"norm1.weight", "input_layernorm.weight"},
    {"attn.q.weight", "self_attn.q_proj.weight"},
    {"attn.k.weight", "self_attn.k_proj.weight"},
    {"attn.v.weight", "self_attn.v_proj.weight"},
    {"attn.q.bias", "self_attn.q_proj.bias"},
    {"attn.k.bias", "self_attn.k_proj.bias"},
    {"attn.v.bias", "self_attn.v_proj.bias"},
    {"attn.q_norm.weight", "self_attn.q_norm.weight"},
    {"attn.k_norm.weight", "self_attn.k_norm.weight"},
    {"attn.proj.weight", "self_attn.o_proj.weight"},
    {"norm2.weight", "post_attention_layernorm.weight"},
    {"mlp.gate.weight", "mlp.gate_proj.weight"},
    {"mlp.up.weight", "mlp.up_proj.weight"},
    {"mlp.proj.weight", "mlp.down_proj.weight"},
    {0},
};

static const struct hf_entry hf_entries[] = {
    {"attention_bias", HF_FLAG, .flag = false},
    {"bos_token_id", HF_NULL},
    {"eos_token_id", HF_NULL},
    {"hidden_act", HF_TEXT, "silu"},
    {"hidden_size", HF_COUNT, HF_FIELD(width)},
    {"intermediate_size", HF_COUNT, HF_FIELD(mlp_width)},
    {"max_position_embeddings", HF_COUNT, HF_FIELD(positions)},
    {"num_attention_heads", HF_COUNT, HF_FIELD(heads), .is_checked = true, .default_value = 32},
    {"num_hidden_layers", HF_COUNT, HF_FIELD(layers), .is_checked = true, .default_value = 32},
    {"num_key_value_heads", HF_COUNT, HF_FIELD(kv_heads), .is_checked = true},
    {"head_dim", HF_HEAD_DIM},
    {"rms_norm_eps", HF_REAL, HF_FIELD(norm_epsilon), .default_value = 1e-6},
    {"rope_scaling", HF_ROPE_SCALING},
    {"rope_theta", HF_REAL, HF_FIELD(rope_base), .default_value = 10000},
    {"tie_word_embeddings", HF_TIED, .flag = false},
    {"vocab_size", HF_COUNT, HF_FIELD(vocabulary)},
    {NULL, HF_END},
};

static const struct hf_model hf_llama = {.type = "llama",
                                         .architecture = "LlamaForCausalLM",
                                         .block_prefix = "model.layers",
                                         .model_tensors = model_llama_tensors,
                                         .block_tensors = model_llama_block_tensors,
                                         .entries = hf_entries};

const struct model_kind model_kind_llama = {
    .task = &model_task_language,
    .block = model_llama_block,
    .is_rotary = true,
    .hf_models = (const struct hf_model *const[]){&hf_llama, NULL},
};
