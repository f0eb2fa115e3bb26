/*
 * block — one transformer block, forward and backward.
 *
 *     x -> norm1 -> q, k, v (-> q/k norm) (-> RoPE) -> attention -> proj -> + x     = middle
 *     middle -> norm2 -> fc -> GELU, or SwiGLU of gate and up -> proj -> + middle = out
 *
 * Pre-norm (Radford et al., GPT-2, 2019; Touvron et al., LLaMA, 2023; Dosovitskiy et al., ViT, ICLR
 * 2021). struct block_config selects the variant.
 *
 *     // once per block
 *     block_describe(&config, &params, "blocks.0", &offsets, err);
 *     block_plan(&block, &config, &offsets, ops, items, tokens, err);  // once for all blocks
 *     block_forward(&block, weights, saved, x, row_starts, out);
 *     block_backward(&block, weights, saved, x, row_starts, scratch, gradients, d);
 *
 * One plan serves all blocks of a model: offsets are relative to the block's unit or to an arena of
 * saved_bytes. Repeating block_forward produces bit-identical saved tensors. The passes allocate
 * nothing.
 */
#ifndef MILLRACE_TRAINER_MODELS_BLOCK_H
#define MILLRACE_TRAINER_MODELS_BLOCK_H

#include "trainer/models/linear.h"
#include "trainer/models/params.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct block_config {
    uint32_t width, heads;
    uint32_t kv_heads;
    uint32_t head_dim; /* 0: width / heads */
    uint32_t mlp_width;
    enum norm_kind norm;
    double epsilon;
    bool rope; /* else the embedding adds positions */
    double rope_base;
    struct rope_scaling rope_scaling;
    /* RMSNorm of each q and k head before RoPE, as in Qwen3 (Henry et al., "Query-Key Normalization
     * for Transformers", 2020). */
    bool qk_norm;
    bool swiglu; /* else GELU */
    bool causal;
    bool bias;           /* in all products; LayerNorm always has one */
    bool qkv_bias;       /* for q, k and v only */
    bool adds_gradients; /* backward passes add to gradients */
    /* Initial standard deviations; residual_deviation: of weights whose product is added to the
     * residual stream. */
    double deviation, residual_deviation;
};

/* Offsets in the block's unit, in elements. qkv: q, k and v; up: fc, or gate and up. */
struct block_offsets {
    uint64_t norm1_weight, norm1_bias, norm2_weight, norm2_bias;
    uint64_t qkv_weight, qkv_bias, attn_proj_weight, attn_proj_bias;
    uint64_t q_norm_weight, k_norm_weight;
    uint64_t up_weight, up_bias, mlp_proj_weight, mlp_proj_bias;
};

/* Byte offsets in the arena of saved tensors. raw_qkv: qkv before the norms of q and k. */
struct block_saved_offsets {
    uint64_t normed1, mean1, rstd1, qkv, heads_out, lse, middle;
    uint64_t raw_qkv, q_rstd, k_rstd;
    uint64_t normed2, mean2, rstd2, hidden, activated;
};

/* Byte offsets in the scratch memory of a backward pass. Attention and MLP share memory. */
struct block_scratch {
    uint64_t d_activated, d_hidden, d_normed2;
    uint64_t d_heads_out, d_qkv, attention, d_normed1;
    uint64_t d_frozen; /* discarded gradients of a norm's frozen weight and bias */
};

/* Immutable once planned. Owns nothing. */
struct block {
    struct block_config config;
    struct ops *ops;
    uint64_t rows;
    struct block_offsets offsets;
    struct norm_shape norm, q_norm, k_norm;
    struct attn_shape attention;
    struct rope_spec rope;
    struct linear qkv, attn_proj, up, mlp_proj;
    struct block_saved_offsets saved;
    struct block_scratch scratch;
    uint64_t saved_bytes, scratch_bytes;
};

/* Adds the unit `name` with the parameters of one block (docs/reference/models.md). -EINVAL if the
 * configuration is inconsistent. */
int block_describe(const struct block_config *config, struct params *params, const char *name,
                   struct block_offsets *ret_offsets, struct err *err);

/* items: number of sequences of `tokens` tokens. saved_bytes and scratch_bytes saturate
 * (arena.h). Borrows ops. */
int block_plan(struct block *block, const struct block_config *config,
               const struct block_offsets *offsets, struct ops *ops, uint64_t items,
               uint64_t tokens, struct err *err);

/* x, out: [rows, width], compute type. weights: of this block's unit. saved, x and row_starts (see
 * attn_fwd) must not change until the backward pass. */
void block_forward(const struct block *block, const void *weights, void *saved, const void *x,
                   const int32_t *row_starts, void *out);

/* d: the gradient of out, replaced by that of x. gradients: of this block's unit; frozen parameters
 * have none. scratch: scratch_bytes. */
void block_backward(const struct block *block, const void *weights, void *saved, const void *x,
                    const int32_t *row_starts, void *scratch,
                    const struct unit_gradients *gradients, void *d);

/* Floating-point operations of the unit's forward pass and, if `backward`, its backward pass. */
double block_flops(const struct block *block, const struct params *params, uint64_t unit,
                   bool backward);

#endif
