/*
 * block — one transformer block, forward and backward: every model is a row of these.
 *
 *     x -> norm1 -> q, k, v (-> q/k norm) (-> RoPE) -> attention -> proj -> + x     = middle
 *     middle -> norm2 -> fc -> GELU, or SwiGLU of gate and up -> proj -> + middle = out
 *
 * Pre-norm (Radford et al., GPT-2, 2019; Touvron et al., LLaMA, 2023; Dosovitskiy et al., ViT, ICLR
 * 2021). Which of {LayerNorm, RMSNorm} x {learned positions, RoPE} x {multi-head, grouped-query} x
 * {GELU, SwiGLU} x {causal, full} it is, is data: struct block_config.
 *
 *     // once a block: its unit of parameters
 *     block_describe(&config, &params, "blocks.0", &offsets, err);
 *     block_plan(&block, &config, &offsets, ops, items, tokens, err);  // once for all equal blocks
 *     block_forward(&block, weights, saved, x, row_starts, out);
 *     block_backward(&block, weights, saved, x, row_starts, scratch, gradients, d);
 *
 * One plan serves all blocks of a model: offsets count from the start of a block's unit, and a
 * block's saved tensors lie in one arena of saved_bytes at offsets found when planned. Calling
 * block_forward again with the same arguments gives the same saved tensors, bit for bit. Nothing is
 * allocated.
 */
#ifndef MILLRACE_TRAINER_MODELS_BLOCK_H
#define MILLRACE_TRAINER_MODELS_BLOCK_H

#include "trainer/models/linear.h"
#include "trainer/models/params.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct block_config {
    uint32_t width, heads;
    uint32_t kv_heads; /* divides heads; equal to it: multi-head */
    uint32_t head_dim; /* 0: width / heads */
    uint32_t mlp_width;
    enum norm_kind norm;
    double epsilon; /* of the norms */
    bool rope;      /* else positions are the embedding's business */
    double rope_base;
    struct rope_scaling rope_scaling;
    bool qk_norm; /* an RMSNorm of each head of q and k, before RoPE (Henry et al., "Query-Key
                   * Normalization for Transformers", 2020, as Qwen3 has it) */
    bool swiglu;  /* else GELU */
    bool causal;
    bool bias;           /* of the products; a LayerNorm always has one */
    bool qkv_bias;       /* of q, k and v, where the other products have none */
    bool adds_gradients; /* a backward pass adds to them; else it writes them */
    double deviation,
        /* initial: of all weights, and of those whose output is added to the stream */
        residual_deviation;
};

/* Where the parameters of a block lie, in elements from the start of its unit. qkv: q, k, v in one;
 * up: fc, or gate and up. */
struct block_offsets {
    uint64_t norm1_weight, norm1_bias, norm2_weight, norm2_bias;
    uint64_t qkv_weight, qkv_bias, attn_proj_weight, attn_proj_bias;
    uint64_t q_norm_weight, k_norm_weight;
    uint64_t up_weight, up_bias, mlp_proj_weight, mlp_proj_bias;
};

/* Offsets in the arena of saved tensors, bytes. raw_qkv: before the norms of q and k, of which
 * q_rstd and k_rstd are. */
struct block_saved {
    uint64_t normed1, mean1, rstd1, qkv, mixed, lse, middle;
    uint64_t raw_qkv, q_rstd, k_rstd;
    uint64_t normed2, mean2, rstd2, hidden, activated;
};

/* Byte offsets into the scratch buffer of a backward pass; the two halves of a block share the
 * same memory. */
struct block_scratch {
    uint64_t d_activated, d_hidden, d_normed2;
    uint64_t d_mixed, d_qkv, attention, d_normed1;
    uint64_t d_frozen; /* weight and bias of a norm, where they are frozen: nobody wants them */
};

/* Immutable once planned; owns nothing. */
struct block {
    struct block_config config;
    struct ops *ops;
    uint64_t rows;
    struct block_offsets offsets;
    struct norm_shape norm, q_norm, k_norm;
    struct attn_shape attention;
    struct rope_spec rope;
    struct linear qkv, attn_proj, up, mlp_proj;
    struct block_saved saved;
    struct block_scratch scratch;
    uint64_t saved_bytes, scratch_bytes;
};

/* Adds the unit `name` with the parameters of one block: name.norm1.weight, name.attn.q.weight, ...
 * (docs/reference/models.md). -EINVAL where the configuration contradicts itself. */
int block_describe(const struct block_config *config, struct params *params, const char *name,
                   struct block_offsets *ret_offsets, struct err *err);

/* For items sequences of so many tokens. saved_bytes and scratch_bytes reach ARENA_BYTES_MAX where
 * that is too large. Borrows ops. */
int block_plan(struct block *block, const struct block_config *config,
               const struct block_offsets *offsets, struct ops *ops, uint64_t items,
               uint64_t tokens, struct err *err);

/* x, out: [rows, width], compute type. weights: of this block's unit. row_starts: the first row of
 * its sequence that each row's attention sees, NULL: row 0 (see attn_fwd). saved: to be kept, with
 * x and row_starts, until the backward pass. */
void block_forward(const struct block *block, const void *weights, void *saved, const void *x,
                   const int32_t *row_starts, void *out);

/* d: the gradient of out, becomes that of x. gradients: of this block's unit; each that is trained
 * is written, not added to. scratch: of scratch_bytes. */
void block_backward(const struct block *block, const void *weights, void *saved, const void *x,
                    const int32_t *row_starts, void *scratch,
                    const struct unit_gradients *gradients, void *d);

/* Of a forward pass and, where there is one, a backward pass of the block that is that unit, see
 * model_flops. */
double block_flops(const struct block *block, const struct params *params, uint64_t unit,
                   bool backward);

#endif
