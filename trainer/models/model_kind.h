/*
 * model_kind — the properties and functions that differ between model types. Private to
 * trainer/models/.
 *
 * A model is one file that defines a struct model_kind, and a row in models.h. A language model
 * (gpt2.c, llama.c, qwen.c) defines its blocks and its Hugging Face names; language.c provides the
 * embedding and the head.
 */
#ifndef MILLRACE_TRAINER_MODELS_MODEL_KIND_H
#define MILLRACE_TRAINER_MODELS_MODEL_KIND_H

#include "base/bytes.h"
#include "ckpt/format/hf_model.h"
#include "trainer/models/activation_plan.h"
#include "trainer/models/block.h"
#include "trainer/models/model.h"
#include "trainer/ops/arena.h"

/* Byte offsets in the activations of one micro-batch. */
struct model_layout {
    uint64_t hidden, hidden_bytes; /* input of each block and of the head */
    uint64_t saved;                /* block.saved_bytes per slot of activation_plan.h */
    uint64_t patches;              /* vision models; only with the embedding */
    uint64_t normed, mean, rstd, pooled, logits; /* head; pooled: images only */
    uint64_t d;       /* gradient of hidden, if the caller provides no buffer */
    uint64_t scratch; /* contains the next three */
    uint64_t d_normed, d_pooled, d_frozen; /* d_frozen: see struct block_scratch */
    uint64_t bytes;
};

struct model_pass {
    const struct model_stage *stage;
    const struct model_memory *memory;
    void *activations;
    struct offload *offload; /* optional */
    const struct model_input *input;
    struct model_layout layout;
    struct activation_plan saved;
};

struct model;

/* Embedding and head of a task; all hooks are required. describe_* add parameters to the newest
 * unit. */
struct model_task {
    int (*check)(const struct model_config *config, struct err *err);
    uint64_t (*tokens)(const struct model_config *config); /* hidden rows per item */
    int (*describe_embed)(struct model *model, struct err *err);
    int (*describe_head)(struct model *model, struct err *err); /* after the final norm */
    int (*plan)(struct model *model, struct err *err);
    /* Elements of the input that the backward pass needs. */
    uint64_t (*patch_elements)(const struct model *model);
    void (*embed_forward)(struct model *model, const struct model_pass *pass, void *hidden);
    void (*embed_backward)(struct model *model, const struct model_pass *pass,
                           const void *d_hidden);
    /* Computes losses from normed; unless gradient_scale is NULL, also d_normed and the gradients
     * of *gradient_scale times the sum of losses. */
    void (*head)(struct model *model, const struct model_pass *pass,
                 const struct model_result *result, const double *gradient_scale);
    double (*flops)(const struct model *model);
};

/* vit.c; language.c: next-token prediction, with learned positions unless the model is rotary. */
extern const struct model_task model_task_image, model_task_language;

/* Initializes the field of a struct hf_entry. */
#define HF_FIELD(member) .field = offsetof(struct hf_config, member)

struct model_kind {
    const struct model_task *task;
    struct block_config (*block)(const struct model_config *config);
    bool is_rotary;
    bool is_tied; /* if false, language_config.tied decides */
    const struct hf_model *const *hf_models;
};

#define MODEL(name, NAME) extern const struct model_kind model_kind_##name;
MODELS(MODEL)
#undef MODEL

/* Pre-norm blocks with LayerNorm, GELU and biases. */
struct block_config model_classic_block(const struct model_config *config);
/* The blocks of Llama, and the tensor names of all models with these blocks. */
struct block_config model_llama_block(const struct model_config *config);
extern const struct hf_tensor_map model_llama_tensors[], model_llama_block_tensors[];

/* Image classifiers only. positions: offset in the unit, in elements. */
struct vision_parts {
    struct linear patch, head;
    uint64_t positions;
};

/* Plans for the head's products over `rows` rows; zero if rows is 0. Immutable once planned. */
struct head_chunk {
    uint64_t rows;
    struct gemm_plan forward, backward_input;
    struct gemm_plan backward_weight[2]; /* [1] adds to the gradient */
};

/* Language models only. Offsets in units, in elements. */
struct language_parts {
    uint64_t token_table, positions, head_weight;
    struct head_chunk chunks[2]; /* a full chunk, and the remainder */
};

/* Immutable once opened. */
struct model {
    struct model_config config;
    const struct model_kind *kind;
    const struct model_task *task;
    struct ops *ops;
    uint64_t items, tokens, rows; /* rows = items * tokens */
    struct params params;
    struct block block;
    uint64_t norm_weight, norm_bias; /* offsets in the head's unit, in elements */
    struct vision_parts vision;
    struct language_parts language;
    uint64_t head_rows, classes; /* rows of losses, columns of logits */
    uint64_t logits_cols;        /* classes plus padding */
    uint64_t logits_rows;        /* in memory at a time */
    int64_t tied;                /* index of the shared parameter, or -1 */
    void *zeros;                 /* one hidden row */
    uint64_t first_trained; /* first unit with a trained parameter, where backward passes end */
};

enum { MODEL_UNIT_EMBED = 0, MODEL_UNIT_BLOCKS = 1 };

/* -EINVAL, naming `what`, unless value is 1 to limit. */
int model_check_limit(const char *what, uint64_t value, uint64_t limit, struct err *err);

/* Adds a parameter to the newest unit. *ret_offset: in the unit, in elements. */
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
    uint64_t trained_offset;
    return params_trained_offset(&model->params, unit, offset, &trained_offset);
}

/* Columns of logits in memory: the rows of the head's weight plus its padding_rows. */
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
