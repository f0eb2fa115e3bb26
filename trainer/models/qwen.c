/*
 * qwen — a language model like llama.c, with either biases for q, k and v (Yang et al., "Qwen2
 * Technical Report", 2024) or norms for q and k (Yang et al., "Qwen3 Technical Report", 2025).
 */
#include "trainer/models/model_kind.h"

static struct block_config block(const struct model_config *config)
{
    struct block_config block = model_llama_block(config);
    block.qk_norm = config->language.qk_norm;
    block.qkv_bias = !block.qk_norm;
    return block;
}

#define COMMON_ENTRIES                                                                             \
    {"bos_token_id", HF_NULL}, {"eos_token_id", HF_NULL}, {"hidden_act", HF_TEXT, "silu"},         \
        {"hidden_size", HF_COUNT, HF_FIELD(width)},                                                \
        {"intermediate_size", HF_COUNT, HF_FIELD(mlp_width)},                                      \
        {"max_position_embeddings", HF_COUNT, HF_FIELD(positions)},                                \
        {"num_attention_heads", HF_COUNT, HF_FIELD(heads), .is_checked = true,                     \
         .default_value = 32},                                                                     \
        {"num_hidden_layers", HF_COUNT, HF_FIELD(layers), .is_checked = true,                      \
         .default_value = 32},                                                                     \
        {"num_key_value_heads", HF_COUNT, HF_FIELD(kv_heads), .is_checked = true,                  \
         .default_value = 32},                                                                     \
        {"rms_norm_eps", HF_REAL, HF_FIELD(norm_epsilon), .default_value = 1e-6},                  \
        {"rope_scaling", HF_ROPE_SCALING},                                                         \
        {"rope_theta", HF_REAL, HF_FIELD(rope_base), .default_value = 10000},                      \
        {"tie_word_embeddings", HF_TIED}, {"use_sliding_window", HF_FLAG},                         \
        {"vocab_size", HF_COUNT, HF_FIELD(vocabulary)},

static const struct hf_entry qwen2_entries[] = {
    COMMON_ENTRIES{"head_dim", HF_HEAD_DIM},
    {NULL, HF_END},
};

static const struct hf_entry qwen3_entries[] = {
    COMMON_ENTRIES{"attention_bias", HF_FLAG},
    {"head_dim", HF_COUNT, HF_FIELD(head_dim), .is_checked = true, .default_value = 128},
    {NULL, HF_END},
};

static const struct hf_model hf_qwen2 = {.type = "qwen2",
                                         .architecture = "Qwen2ForCausalLM",
                                         .block_prefix = "model.layers",
                                         .model_tensors = model_llama_tensors,
                                         .block_tensors = model_llama_block_tensors,
                                         .entries = qwen2_entries,
                                         .marker = "blocks.0.attn.q.bias"};
static const struct hf_model hf_qwen3 = {.type = "qwen3",
                                         .architecture = "Qwen3ForCausalLM",
                                         .block_prefix = "model.layers",
                                         .model_tensors = model_llama_tensors,
                                         .block_tensors = model_llama_block_tensors,
                                         .entries = qwen3_entries,
                                         .marker = "blocks.0.attn.q_norm.weight"};

const struct model_kind model_kind_qwen = {
    .task = &model_task_language,
    .block = block,
    .is_rotary = true,
    .hf_models = (const struct hf_model *const[]){&hf_qwen2, &hf_qwen3, NULL},
};
