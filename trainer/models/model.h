/*
 * model — a model's parameters, and the passes of one micro-batch through one stage.
 *
 * A model is an embedding, identical blocks (block.h) and a head. A stage is a range of blocks; the
 * first stage also has the embedding, the last the head. Without a pipeline there is one stage.
 *
 *     model_open(&config, ops, items, &model, err);
 *     model_forward(model, &stage, &memory, &activations, &input, hidden_in, hidden_out, NULL);
 *     model_backward(model, &stage, &memory, &activations, &input, &result, d_hidden_out,
 *                    d_hidden_in);
 *
 * In training, the backward pass computes the losses: the head computes logits and their gradients
 * a few rows at a time, so the full logits are never in memory. In an evaluation, model_forward
 * computes the losses into `result`.
 *
 * The caller owns struct model_memory and one struct model_activations per micro-batch in flight.
 */
#ifndef MILLRACE_TRAINER_MODELS_MODEL_H
#define MILLRACE_TRAINER_MODELS_MODEL_H

#include "trainer/models/models.h"
#include "trainer/models/offload.h"
#include "trainer/models/params.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct vision_config {
    uint32_t patch, side; /* pixels; patch divides side */
    uint32_t classes;
};

struct language_config {
    uint32_t block; /* tokens per item */
    uint32_t vocabulary;
    bool tied; /* the head shares the embedding's table, as always in GPT-2 */
    /* Maximum rows of logits in memory, rounded down to whole items if above one item. 0: the
     * largest power of two that fits in 512 MiB. */
    uint32_t head_rows;
    /* Rotary models only: */
    uint32_t kv_heads; /* divides heads; 0: equal to heads */
    uint32_t head_dim; /* 0: width / heads */
    double rope_base, norm_epsilon;
    struct rope_scaling rope_scaling;
    bool qk_norm; /* Qwen: norms of q and k (Qwen3) instead of biases (Qwen2) */
};

struct model_config {
    enum model_type type;
    uint32_t layers, heads, width;
    uint32_t mlp_width; /* 0: width * mlp_ratio */
    uint32_t mlp_ratio;
    struct vision_config vision;
    struct language_config language;
    /* Every n-th block saves only its input and recomputes the rest, bit-identically, in the
     * backward pass. 0: none. */
    uint32_t recompute_every;
    /* Every n-th of the remaining blocks saves its activations in pinned memory. 0: none. */
    uint32_t offload_every;
    /* Patterns of frozen parameters (freeze.h), borrowed until the model is closed. NULL: none. */
    const char *freeze;
    /* Minimum parameters of a group of adjacent units (params.h). 0: units are not joined. */
    uint64_t group_params_min;
    bool adds_gradients; /* backward passes add to gradients */
};

/* A range of blocks, nonempty unless the stage has the head. Immutable. */
struct model_stage {
    uint32_t first_block, blocks_count;
    bool has_embedding, has_head;
};

struct model_activations {
    void *memory;            /* model_activation_bytes */
    struct offload *offload; /* from model_open_offload; unused in an evaluation */
};

enum pass_direction { MODEL_FORWARD, MODEL_BACKWARD };

/* Parameters: arenas laid out like model_params, or one array per group. The optional hook
 * `acquire` is called before a pass first uses a group and may set its array. The optional hook
 * `release` is called after the last use; in a backward pass, the group's gradients are then
 * complete. The order of calls depends only on the model and the stage (model_walk). The head also
 * acquires the group of a tied table (model_tied_param); a backward pass releases that group after
 * the embedding. */
struct model_memory {
    const void *weights; /* compute type; NULL: group_weights */
    void *gradients;     /* master type; NULL: group_gradients. Unused in forward passes. */
    const void *const *group_weights; /* [groups_count] */
    void *const *group_gradients;
    void (*acquire)(void *context, uint64_t group, enum pass_direction direction);
    void (*release)(void *context, uint64_t group, enum pass_direction direction);
    void *context;
};

struct vision_input {
    const uint8_t *images; /* [items, side, side, 3] */
    const int32_t *labels; /* [items]; -1: not counted */
    /* Mixup only, else NULL. [items]: the second label, and the weight (0..1) of the first. */
    const int32_t *partner_labels;
    const float *label_weights;
};

struct language_input {
    const int32_t *tokens;        /* [items, block + 1], each 0 to vocabulary - 1 */
    const int32_t *targets;       /* [items, block], -1: not counted; NULL: tokens 1..block */
    const int32_t *row_starts;    /* [items, block]: see attn_fwd in ops.h */
    const int32_t *rows_by_token; /* rows_by_id of embed_bwd in ops.h */
};

/* One micro-batch in device memory. Absent items have targets of -1; their pixels or tokens are
 * arbitrary. */
struct model_input {
    struct vision_input vision;
    struct language_input language;
    /* Factor on the gradients: 1 or a loss scale. NULL: no backward pass. */
    const double *loss_scale;
};

/* Results of the head, in device memory: [items], or [items * block] for a language model. Rows
 * that are not counted are 0. */
struct model_result {
    double *losses;
    uint8_t *correct;
};

struct model;

/* items: per micro-batch. Borrows ops. The caller owns *ret_model. -EINVAL with detail. */
int model_open(const struct model_config *config, struct ops *ops, uint64_t items,
               struct model **ret_model, struct err *err);
void model_close(struct model *model); /* NULL is fine */

const struct model_config *model_config_of(const struct model *model);
const struct params *model_params(const struct model *model);
uint64_t model_rows(const struct model *model); /* rows of losses */
/* Elements (compute type) of hidden_in and hidden_out. */
uint64_t model_hidden_elements(const struct model *model);
uint64_t model_activation_bytes(const struct model *model, const struct model_stage *stage);
uint64_t model_offload_bytes(const struct model *model, const struct model_stage *stage);
/* The caller owns *ret_offload, which is NULL if model_offload_bytes is 0. */
int model_open_offload(const struct model *model, const struct model_stage *stage,
                       struct offload **ret_offload, struct err *err);
/* Floating-point operations of one micro-batch's products (see docs/reference/models.md). */
double model_flops(const struct model *model);

/* Index of the parameter that embedding and head share, or -1. The embedding owns it. A stage with
 * only the head writes the head's gradient at the parameter's offset in `gradients`. The caller
 * copies that to the stage with the embedding, whose backward pass adds to it, so the order of the
 * two terms does not depend on the stages. */
int64_t model_tied_param(const struct model *model);

/* The units of model_params that a stage uses, in forward order. */
void model_stage_units(const struct model *model, const struct model_stage *stage,
                       uint64_t *ret_first, uint64_t *ret_count);

/* Calls the hooks in the same order as a pass, without computing. */
void model_walk(const struct model *model, const struct model_stage *stage,
                const struct model_memory *memory, enum pass_direction direction);

/* hidden_in: copied; NULL if the stage has the embedding. hidden_out: NULL if it has the head.
 * result: for evaluation on a stage with the head, else NULL. */
void model_forward(struct model *model, const struct model_stage *stage,
                   const struct model_memory *memory, const struct model_activations *activations,
                   const struct model_input *input, const void *hidden_in, void *hidden_out,
                   const struct model_result *result);
/* Logits after an evaluation's forward pass: [rows, classes or vocabulary, padded to logits_align],
 * compute type, in the activations. NULL if they were computed in several chunks. */
const void *model_logits(const struct model *model, const struct model_stage *stage,
                         const struct model_activations *activations);
/* Call after model_forward with the same input and a NULL result. Writes or adds (adds_gradients)
 * the gradients of the stage's trained parameters, without padding. result: NULL without the head.
 * d_hidden_out: NULL with the head. d_hidden_in: NULL with the embedding; undefined if nothing
 * before the stage is trained. Completes groups from last to first. */
void model_backward(struct model *model, const struct model_stage *stage,
                    const struct model_memory *memory, const struct model_activations *activations,
                    const struct model_input *input, const struct model_result *result,
                    const void *d_hidden_out, void *d_hidden_in);

#endif
