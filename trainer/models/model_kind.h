/*
 * model_kind — the properties and functions that differ between model types. Only trainer/models/
 * includes this.
 *
 * A model is one file that defines a struct model_kind, and a row in models.h. A language model
 * (gpt2.c, llama.c, qwen.c) gives its blocks and its names in transformers; embedding and head are
 * those of language.c.
 */
#ifndef MILLRACE_TRAINER_MODELS_MODEL_KIND_H
#define MILLRACE_TRAINER_MODELS_MODEL_KIND_H

#include "base/bytes.h"
#include "trainer/models/activation_plan.h"
#include "trainer/models/block.h"
#include "trainer/models/model.h"
#include "trainer/ops/arena.h"

/* The tensors of one micro-batch in one stage: offsets in its activations, bytes. */
struct model_layout {
    uint64_t hidden, hidden_bytes; /* the stream before each block, and before the head */
    uint64_t saved;   /* places of blocks, block.saved_bytes each; see activation_plan.h */
    uint64_t patches; /* of a stage that embeds pictures */
    uint64_t normed, mean, rstd, pooled, logits; /* of the head; pooled where rows are */
    uint64_t d; /* the gradient of the stream, where the caller gives no place for it */
    uint64_t scratch, d_normed, d_pooled, d_frozen; /* all within scratch; d_frozen as a block's */
    uint64_t bytes;
};

/* The arguments of one call of model_forward or model_backward. */
struct model_pass {
    const struct model_stage *stage;
    const struct model_memory *memory;
    void *activations;       /* on the device */
    struct offload *offload; /* NULL: nothing is copied */
    const struct model_input *input;
    struct model_layout layout;
    struct activation_plan saved;
};

struct model;

/* Embedding and head of a task. All hooks are required. describe_*: add to the unit begun last. */
struct model_task {
    int (*check)(const struct model_config *config, struct err *err);
    uint64_t (*tokens)(const struct model_config *config); /* rows of the stream per item */
    int (*describe_embed)(struct model *model, struct err *err);
    int (*describe_head)(struct model *model, struct err *err); /* after the final norm */
    int (*plan)(struct model *model, struct err *err);
    /* kept of the input for the backward pass */
    uint64_t (*patch_elements)(const struct model *model);
    void (*embed_forward)(struct model *model, const struct model_pass *pass, void *hidden);
    void (*embed_backward)(struct model *model, const struct model_pass *pass,
                           const void *d_hidden);
    /* from normed to losses */
    void (*head_forward)(struct model *model, const struct model_pass *pass,
                         const struct model_result *result);
    /* from normed to losses and d_normed */
    void (*head_backward)(struct model *model, const struct model_pass *pass,
                          const struct model_result *result);
    double (*flops)(const struct model *model); /* of embedding and head */
};

/* Classes of images (vit.c); the next token (language.c), where positions are learned unless
 * blocks are rotary. */
extern const struct model_task model_task_image, model_task_language;

/* Immutable. */
struct model_kind {
    const struct model_task *task;
    struct block_config (*block)(const struct model_config *config);
    bool is_rotary;                          /* see model_is_rotary */
    bool is_tied;                            /* always; else model_config.tied says */
    const struct hf_model *const *hf_models; /* see model_hf_models */
};

#define MODEL(name, NAME) extern const struct model_kind model_kind_##name;
MODELS(MODEL)
#undef MODEL

/* The products of a head over so many rows; zeroed where there are none. Immutable once planned. */
struct model_head_piece {
    uint64_t rows;
    struct gemm_plan forward, backward_input;
    struct gemm_plan backward_weight[2]; /* [1] adds to what is there */
};

/* Immutable once opened. Offsets of parameters are in elements from the start of their unit. */
struct model {
    struct model_config config;
    const struct model_kind *kind;
    const struct model_task *task;
    struct ops *ops;
    uint64_t items, tokens, rows; /* rows = items * tokens */
    struct params params;
    struct block block;  /* serves all */
    struct linear patch; /* pictures: the embedding */
    uint64_t embed_tokens, embed_positions;
    uint64_t norm_weight, norm_bias;
    struct linear head; /* ViT; of language models where its weight lies */
    struct model_head_piece
        piece[2]; /* language models: a full one, and the last of what is cut into such */
    uint64_t head_rows, classes; /* of losses, of logits */
    uint64_t logits_cols;        /* classes and padding: what the head's products take */
    uint64_t logits_rows;        /* in memory at a time */
    int64_t tied; /* index of the parameter that embedding and head share, -1: none */
    void *zeros;  /* a row of the stream */
    uint64_t
        /* the first unit of which something is trained: no backward pass goes further */
        first_trained;
};

enum { MODEL_UNIT_EMBED = 0, MODEL_UNIT_BLOCKS = 1 };

/* Adds a parameter to the unit begun last; its offset in the unit, in elements, to *ret_offset. */
int model_add_param(struct model *model, const struct param_spec *spec, uint64_t *ret_offset,
                    struct err *err);

static inline const void *model_unit_weights(const struct model *model,
                                             const struct model_pass *pass, uint64_t unit)
{
    const struct model_memory *memory = pass->memory;
    const struct params *params = &model->params;
    uint64_t offset = params->units[unit].offset, group = params_group_of(params, unit);
    return memory->weights ? linear_weights(model->ops, memory->weights, offset)
                           : linear_weights(model->ops, memory->group_weights[group],
                                            offset - params->groups[group].offset);
}

static inline struct unit_gradients
model_unit_gradients(const struct model *model, const struct model_pass *pass, uint64_t unit)
{
    const struct model_memory *memory = pass->memory;
    const struct params *params = &model->params;
    uint64_t offset = params->units[unit].trained_offset, group = params_group_of(params, unit);
    void *base = memory->gradients;
    if (!base) {
        base = memory->group_gradients[group];
        offset -= params->groups[group].trained_offset;
    }
    return (struct unit_gradients){params, unit,
                                   (char *)base + offset * ops_master_bytes(model->ops)};
}

static inline bool model_is_trained(const struct model *model, uint64_t unit, uint64_t offset)
{
    uint64_t place;
    return params_gradient(&model->params, unit, offset, &place);
}

/* Columns of logits in memory: the head's weight has as many rows with its room (param_spec). */
static inline uint64_t model_logits_cols(const struct model *model, uint64_t classes)
{
    return bytes_round_up(classes, model->ops->table->logits_align);
}

static inline uint32_t model_mlp_width(const struct model_config *config)
{
    return config->mlp_width ? config->mlp_width : config->width * config->mlp_ratio;
}

static inline uint64_t model_unit_head(const struct model *model)
{
    return MODEL_UNIT_BLOCKS + (uint64_t)model->config.layers;
}

#endif
