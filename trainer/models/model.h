/*
 * model — what is computed: a description of parameters, and the forward and backward pass of one
 * micro-batch through one stage.
 *
 * A model is an embedding, a number of equal blocks (block.h) and a head. A stage is a range of
 * blocks, the first with the embedding, the last with the head; a run without pipeline has one.
 * Nothing here knows about steps, ranks or optimizers, and nothing is "the backward of the whole
 * model".
 *
 *     model_open(&config, ops, items, &model, err);
 *     model_forward(model, &stage, &memory, &activations, &input, hidden_in, hidden_out, NULL);
 *     model_backward(model, &stage, &memory, &activations, &input, &result, d_hidden_out,
 *                    d_hidden_in);
 *
 * The losses of a training pass come with its backward pass: the head makes them and the gradients
 * of the logits together, some rows at a time, so that rows x vocabulary never lie in memory. An
 * evaluation gives `result` to model_forward.
 *
 * Memory is the caller's: weights and gradients (struct model_memory), and for each micro-batch in
 * flight a struct model_activations, in which its forward pass keeps what its backward pass needs.
 */
#ifndef MILLRACE_TRAINER_MODELS_MODEL_H
#define MILLRACE_TRAINER_MODELS_MODEL_H

#include "trainer/models/models.h"
#include "trainer/models/offload.h"
#include "trainer/models/params.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct model_config {
    enum model_type type;
    uint32_t layers, heads, width;
    uint32_t mlp_ratio; /* hidden width of the MLP over width; 4 */
    uint32_t mlp_width; /* hidden width of the MLP; 0: as mlp_ratio says */
    /* ViT */
    uint32_t patch, side; /* pixels; patch divides side */
    uint32_t classes;
    /* language model */
    uint32_t block; /* tokens */
    uint32_t vocabulary;
    /* rotary models */
    uint32_t kv_heads; /* divides heads; 0: as many */
    uint32_t head_dim; /* 0: width / heads */
    double rope_base, norm_epsilon;
    struct rope_scaling rope_scaling;
    bool tied;    /* the head is the embedding's table; always so in GPT-2 */
    bool qk_norm; /* Qwen: q and k are normalized (Qwen3), instead of biased (Qwen2) */
    /* Every n-th block keeps nothing of its forward pass but its input, and runs it again in the
     * backward pass: less memory, the same bits. 0: none; 1: all. */
    uint32_t recompute_every;
    /* Of the others every n-th keeps it in pinned memory, copied there and back beside the passes:
     * less device memory, the same bits. 0: none; 1: all. */
    uint32_t offload_every;
    /* Patterns of parameters that are not trained (freeze.h): no gradients of them; NULL: none.
     * Borrowed while the model is open. */
    const char *freeze;
    /* Neighbouring units of parameters are joined until a group has as many (params.h); 0: each is
     * a group. */
    uint64_t group_params_min;
    /* A backward pass adds to what the gradients hold; else it writes them. */
    bool adds_gradients;
    /* Of logits in memory at a time, of a language model, rounded down to whole items where it
     * holds more than one; 0: the largest power of two of rows that fit 512 MiB. */
    uint32_t head_rows;
};

/* A range of blocks, at least one unless the stage has the head. Immutable. */
struct model_stage {
    uint32_t first_block, blocks_count;
    bool embeds, heads; /* has the embedding, has the head */
};

/* Of one micro-batch in flight in one stage. */
struct model_activations {
    void *memory;            /* model_activation_bytes, on the device */
    struct offload *offload; /* of model_open_offload; an evaluation needs none */
};

enum model_use { MODEL_FORWARD, MODEL_BACKWARD };

/* Where the groups of parameters lie: in arenas laid out as model_params, or each where an array
 * says. The hooks may be NULL; they come between two uses of a group, in an order that the model
 * and its stage alone decide (model_walk): `need` before a group is used, and what it writes into
 * the arrays counts from then on; `done` when this pass uses it no more, and in a backward pass its
 * gradients are final. The group of the parameter that embedding and head share (model_tied_param)
 * is needed with the head's too; in a backward pass until it is done itself. */
struct model_memory {
    const void *weights; /* compute type; NULL: group_weights */
    void *gradients;     /* master type; NULL: group_gradients, and in a forward pass neither */
    const void *const *group_weights; /* [groups_count] */
    void *const *group_gradients;
    void (*need)(void *context, uint64_t group, enum model_use use);
    void (*done)(void *context, uint64_t group, enum model_use use);
    void *context;
};

/* The data of one micro-batch, on the device. Exactly the items the model was opened for; absent
 * ones have targets of -1, and any pixels or tokens. */
struct model_input {
    const uint8_t *images; /* ViT: [items, side, side, 3] */
    const int32_t *labels; /* ViT: [items], -1: not counted */
    /* ViT, of pictures that were mixed with others: [items], of those, and what the own labels
     * count, 0..1; both NULL: none was */
    const int32_t *partner_labels;
    const float *label_weights;
    const int32_t *tokens;  /* language model: [items, block + 1], each 0 to vocabulary - 1 */
    const int32_t *targets; /* of tokens: [items, block], -1: not counted; NULL: tokens 1..block */
    const int32_t
        *row_starts; /* of tokens: [items, block], the first that each attends to; NULL: 0 */
    const int32_t *by_token; /* of tokens: the rows by rising token, see ops.h's embed_bwd */
    /* Gradients are those of the sum of losses times this: 1, unless a compute type's range is
     * narrow. Device memory; NULL: there is no backward pass. */
    const double *loss_scale;
};

/* Of a stage with the head; device memory, rows = items (ViT) or items * block. Rows that are not
 * counted are 0. */
struct model_result {
    double *losses;   /* [rows] */
    uint8_t *correct; /* [rows] */
};

struct model;

/* items: of a micro-batch. Borrows ops. Gives the model. -EINVAL with detail (width not divisible
 * by heads, ...). */
int model_open(const struct model_config *config, struct ops *ops, uint64_t items,
               struct model **ret_model, struct err *err);
void model_close(struct model *model); /* NULL is fine */

const struct model_config *model_config_of(const struct model *model);
const struct params *model_params(const struct model *model);
uint64_t model_rows(const struct model *model); /* of losses */
uint64_t
model_hidden_elements(const struct model *model); /* of hidden_in and hidden_out, compute type */
uint64_t model_activation_bytes(const struct model *model, const struct model_stage *stage);
uint64_t model_offload_bytes(const struct model *model,
                             const struct model_stage *stage); /* pinned memory */
/* Gives what takes model_offload_bytes of pinned memory; NULL where that is 0. */
int model_open_offload(const struct model *model, const struct model_stage *stage,
                       struct offload **ret_offload, struct err *err);
/* Floating-point operations of the products in a forward and backward pass of one micro-batch,
 * embedding and head included (docs/reference/models.md tells what counts). */
double model_flops(const struct model *model);

/* The parameter that embedding and head share (a tied head), as an index in model_params, or -1.
 * The embedding owns it. A stage with the head alone reads it too, and writes the head's part of
 * its gradient at its place in `gradients`; a stage with the embedding alone adds its own part to
 * what that place holds: the caller puts the head's part there before its backward pass. So the
 * order of the two contributions is the same whatever the stages. */
int64_t model_tied_param(const struct model *model);

/* Which units of model_params a stage uses, in the order of its forward pass: *ret_first.. +
 * count. */
void model_stage_units(const struct model *model, const struct model_stage *stage,
                       uint64_t *ret_first, uint64_t *ret_count);

/* Calls the hooks of the memory as a pass of that use would, and computes nothing. */
void model_walk(const struct model *model, const struct model_stage *stage,
                const struct model_memory *memory, enum model_use use);

/* hidden_in: NULL for a stage that embeds, else copied; hidden_out: NULL for one with the head.
 * result: of an evaluation with the head; NULL in training. */
void model_forward(struct model *model, const struct model_stage *stage,
                   const struct model_memory *memory, const struct model_activations *activations,
                   const struct model_input *input, const void *hidden_in, void *hidden_out,
                   const struct model_result *result);
/* [rows, vocabulary or classes, and the padding of ops.h's logits_align], compute type, in the
 * activations of an evaluation's forward pass; NULL where they were more rows than are held at a
 * time. */
const void *model_logits(const struct model *model, const struct model_stage *stage,
                         const struct model_activations *activations);
/* After model_forward without a result, of the same input. Gradients: every element that the stage
 * owns and trains is written (a fresh leaf: not added to, unless the configuration says so), the
 * padding excepted. result, filled: NULL for a stage without the head. d_hidden_out: NULL with the
 * head; d_hidden_in: NULL for a stage that embeds; of no meaning where nothing before the stage is
 * trained. Groups are done last group first. */
void model_backward(struct model *model, const struct model_stage *stage,
                    const struct model_memory *memory, const struct model_activations *activations,
                    const struct model_input *input, const struct model_result *result,
                    const void *d_hidden_out, void *d_hidden_in);

#endif
