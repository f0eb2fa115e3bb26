/*
 * model_open — describes a model's parameters and plans its operations; see model.h.
 */
#include "trainer/models/model.h"

#include "trainer/models/freeze.h"
#include "trainer/models/model_kind.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With these limits and those of each task, no product of sizes reaches 2^63. */
enum { LAYERS_MAX = 1 << 12, WIDTH_MAX = 1 << 16, MLP_RATIO_MAX = 1 << 6, MLP_WIDTH_MAX = 1 << 22 };
#define ROWS_MAX (UINT64_C(1) << 36)

static const struct kind_row {
    const char *name;
    const struct model_kind *kind;
} kinds[] = {
#define MODEL(name, NAME) [MODEL_##NAME] = {#name, &model_kind_##name},
    MODELS(MODEL)
#undef MODEL
};

const char *model_type_name(enum model_type type)
{
    return kinds[type].name;
}

bool model_type_find(const char *name, enum model_type *ret_type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *ret_type = (enum model_type)i;
            return true;
        }
    return false;
}

bool model_is_rotary(enum model_type type)
{
    return kinds[type].kind->is_rotary;
}

const struct hf_model *const *model_hf_models(enum model_type type)
{
    return kinds[type].kind->hf_models;
}

int model_check_limit(const char *what, uint64_t value, uint64_t limit, struct err *err)
{
    if (value > 0 && value <= limit)
        return 0;
    err_set(err, -EINVAL, "the model's %s is out of range", what);
    err_expected(err, "1 to %" PRIu64, limit);
    err_found(err, "%" PRIu64, value);
    return -EINVAL;
}

static int check_config(const struct model_config *config, const struct model_kind *kind,
                        uint64_t items, struct err *err)
{
    int status = model_check_limit("number of layers", config->layers, LAYERS_MAX, err);
    if (status == 0)
        status = model_check_limit("width", config->width, WIDTH_MAX, err);
    if (status == 0)
        status = model_check_limit("number of heads", config->heads, config->width, err);
    if (status == 0)
        status = config->mlp_width
                     ? model_check_limit("mlp_width", config->mlp_width, MLP_WIDTH_MAX, err)
                     : model_check_limit("mlp_ratio", config->mlp_ratio, MLP_RATIO_MAX, err);
    if (status == 0)
        status = kind->task->check(config, err);
    if (status == 0)
        status =
            model_check_limit("micro-batch", items, ROWS_MAX / kind->task->tokens(config), err);
    return status;
}

int model_add_param(struct model *model, const struct param_spec *spec, uint64_t *ret_offset,
                    struct err *err)
{
    struct params *params = &model->params;
    uint64_t index;
    int status = params_add(params, spec, &index, err);
    if (status < 0)
        return status;
    *ret_offset = params->list[index].offset - params->units[params->units_count - 1].offset;
    return 0;
}

struct block_config model_classic_block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->heads,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_LAYER,
                                 .bias = true};
}

/* *ret_offsets apply to all blocks. */
static int describe_blocks(struct model *model, const struct block_config *config,
                           struct block_offsets *ret_offsets, struct err *err)
{
    for (uint32_t i = 0; i < model->config.layers; i++) {
        char name[PARAMS_NAME_BYTES_MAX];
        snprintf(name, sizeof name, "blocks.%" PRIu32, i);
        int status = block_describe(config, &model->params, name, ret_offsets, err);
        if (status < 0)
            return status;
    }
    return 0;
}

static int describe_head(struct model *model, enum norm_kind norm, struct err *err)
{
    const struct param_spec weight = {
        .name = "norm.weight", .rows = model->config.width, .init = PARAM_ONES};
    const struct param_spec bias = {
        .name = "norm.bias", .rows = model->config.width, .init = PARAM_ZEROS};
    int status = params_begin_unit(&model->params, "head", err);
    if (status == 0)
        status = model_add_param(model, &weight, &model->norm_weight, err);
    if (status == 0 && norm == NORM_LAYER)
        status = model_add_param(model, &bias, &model->norm_bias, err);
    return status < 0 ? status : model->task->describe_head(model, err);
}

static int describe_and_plan(struct model *model, struct err *err)
{
    struct block_config block = model->kind->block(&model->config);
    block.adds_gradients = model->config.adds_gradients;
    struct block_offsets offsets = {0};
    int status = params_begin_unit(&model->params, "embed", err);
    if (status == 0)
        status = model->task->describe_embed(model, err);
    if (status == 0)
        status = describe_blocks(model, &block, &offsets, err);
    if (status == 0)
        status = describe_head(model, block.norm, err);
    if (status == 0)
        status = block_plan(&model->block, &block, &offsets, model->ops, model->items,
                            model->tokens, err);
    return status < 0 ? status : model->task->plan(model, err);
}

static int group_and_freeze(struct model *model, struct err *err)
{
    struct params *params = &model->params;
    params_join_units(params, model->config.group_params_min);
    int status = model->config.freeze ? freeze_params(params, model->config.freeze, err) : 0;
    while (!status && params->units[model->first_trained].trained_elements == 0)
        model->first_trained++;
    return status;
}

static size_t zeros_bytes(const struct model *model)
{
    return model->config.width * ops_compute_bytes(model->ops);
}

static int check_size(const struct model *model, struct err *err)
{
    const struct model_stage whole = {0, model->config.layers, true, true};
    if (model_activation_bytes(model, &whole) < ARENA_BYTES_MAX)
        return 0;
    err_set(err, -EINVAL, "the activations of a micro-batch are too large for any machine");
    err_advise(err, "reduce the model, its input or the micro-batch");
    return -EINVAL;
}

int model_open(const struct model_config *config, struct ops *ops, uint64_t items,
               struct model **ret_model, struct err *err)
{
    const struct model_kind *kind = kinds[config->type].kind;
    int status = check_config(config, kind, items, err);
    if (status < 0)
        return status;
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return err_errno(err, -ENOMEM, "cannot open the model");
    model->config = *config;
    model->config.language.tied = config->language.tied || kind->is_tied;
    model->kind = kind;
    model->task = kind->task;
    model->ops = ops;
    model->items = items;
    model->tokens = kind->task->tokens(config);
    model->rows = items * model->tokens;
    model->tied = -1;
    status = describe_and_plan(model, err);
    if (status == 0)
        status = group_and_freeze(model, err);
    if (status == 0)
        status = check_size(model, err);
    if (status == 0)
        status = ops->device->ops->mem_alloc(ops->device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS),
                                             zeros_bytes(model), &model->zeros, err);
    if (status < 0) {
        model_close(model);
        return status;
    }
    *ret_model = model;
    return 0;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    model->ops->device->ops->mem_free(model->ops->device, mem_for(MEM_DEVICE, MEM_FOR_ACTIVATIONS),
                                      model->zeros, zeros_bytes(model));
    params_deinit(&model->params);
    free(model);
}

const struct model_config *model_config_of(const struct model *model)
{
    return &model->config;
}

const struct params *model_params(const struct model *model)
{
    return &model->params;
}

int64_t model_tied_param(const struct model *model)
{
    return model->tied;
}

uint64_t model_rows(const struct model *model)
{
    return model->head_rows;
}

uint64_t model_hidden_elements(const struct model *model)
{
    return model->rows * model->config.width;
}

double model_flops(const struct model *model)
{
    double flops = model->task->flops(model);
    for (uint64_t unit = MODEL_UNIT_BLOCKS; unit < model_unit_head(model); unit++)
        flops += block_flops(&model->block, &model->params, unit, unit >= model->first_trained);
    return flops;
}

void model_stage_units(const struct model *model, const struct model_stage *stage,
                       uint64_t *ret_first, uint64_t *ret_count)
{
    uint64_t first =
        stage->has_embedding ? MODEL_UNIT_EMBED : MODEL_UNIT_BLOCKS + (uint64_t)stage->first_block;
    uint64_t end = MODEL_UNIT_BLOCKS + (uint64_t)stage->first_block + stage->blocks_count;
    (void)model;
    assert(end <= model_unit_head(model));
    *ret_first = first;
    *ret_count = end + (stage->has_head ? 1 : 0) - first;
}
