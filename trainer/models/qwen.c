/*
 * qwen — a language model like llama.c, with either biases of q, k and v (Yang et al., "Qwen2
 * Technical Report", 2024) or norms of q and k (Yang et al., "Qwen3 Technical Report", 2025).
 */
#include "ckpt/format/hf_model.h"
#include "trainer/models/model_kind.h"

#include <math.h>

static struct block_config block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->kv_heads ? config->kv_heads : config->heads,
                                 .head_dim = config->head_dim,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_RMS,
                                 .epsilon = config->norm_epsilon,
                                 .rope = true,
                                 .rope_base = config->rope_base,
                                 .rope_scaling = config->rope_scaling,
                                 .qk_norm = config->qk_norm,
                                 .qkv_bias = !config->qk_norm,
                                 .swiglu = true,
                                 .causal = true,
                                 .deviation = 0.02,
                                 .residual_deviation = 0.02 / sqrt(2.0 * config->layers)};
}

static const struct hf_tensor_map hf_outside[] = {
    {"embed.tokens.weight", "model.embed_tokens.weight"},
    {"norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight"},
    {0},
};

static const struct hf_tensor_map hf_inside[] = {
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

#define FIELD(member) .field = offsetof(struct hf_config, member)

/* What Qwen2 and Qwen3 share. */
#define COMMON_ENTRIES                                                                             \
    {"bos_token_id", HF_NULL}, {"eos_token_id", HF_NULL}, {"hidden_act", HF_TEXT, "silu"},         \
        {"hidden_size", HF_COUNT, FIELD(width)},                                                   \
        {"intermediate_size", HF_COUNT, FIELD(mlp_width)},                                         \
        {"max_position_embeddings", HF_COUNT, FIELD(positions)},                                   \
        {"num_attention_heads", HF_COUNT, FIELD(heads), .is_checked = true, .default_value = 32},  \
        {"num_hidden_layers", HF_COUNT, FIELD(layers), .is_checked = true, .default_value = 32},   \
        {"num_key_value_heads", HF_COUNT, FIELD(kv_heads), .is_checked = true,                     \
         .default_value = 32},                                                                     \
        {"rms_norm_eps", HF_REAL, FIELD(norm_epsilon), .default_value = 1e-6},                     \
        {"rope_scaling", HF_ROPE_SCALING},                                                         \
        {"rope_theta", HF_REAL, FIELD(rope_base), .default_value = 10000},                         \
        {"tie_word_embeddings", HF_TIED}, {"use_sliding_window", HF_FLAG},                         \
        {"vocab_size", HF_COUNT, FIELD(vocabulary)},

static const struct hf_entry qwen2_entries[] = {
    COMMON_ENTRIES{"head_dim", HF_HEAD_DIM},
    {NULL, HF_END},
};

static const struct hf_entry qwen3_entries[] = {
    COMMON_ENTRIES{"attention_bias", HF_FLAG},
    {"head_dim", HF_COUNT, FIELD(head_dim), .is_checked = true, .default_value = 128},
    {NULL, HF_END},
};

static const struct hf_model hf_qwen2 = {.type = "qwen2",
                                         .architecture = "Qwen2ForCausalLM",
                                         .block_prefix = "model.layers",
                                         .outside = hf_outside,
                                         .inside = hf_inside,
                                         .entries = qwen2_entries,
                                         .marker = "blocks.0.attn.q.bias"};
static const struct hf_model hf_qwen3 = {.type = "qwen3",
                                         .architecture = "Qwen3ForCausalLM",
                                         .block_prefix = "model.layers",
                                         .outside = hf_outside,
                                         .inside = hf_inside,
                                         .entries = qwen3_entries,
                                         .marker = "blocks.0.attn.q_norm.weight"};

const struct model_kind model_kind_qwen = {
    .task = &model_task_language,
    .block = block,
    .is_rotary = true,
    .hf_models = (const struct hf_model *const[]){&hf_qwen2, &hf_qwen3, NULL},
};
