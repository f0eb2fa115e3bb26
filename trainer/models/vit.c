/*
 * model_vit — a classifier of pictures: patches as tokens, learned positions, the mean of all
 * tokens after the final norm (Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021; the
 * mean instead of a class token as Beyer et al., "Better plain ViT baselines for ImageNet-1k",
 * 2022).
 */
#include "trainer/models/model_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

enum { SIDE_MAX = 1 << 14, CLASSES_MAX = 1 << 24, COLOURS = 3 };

/* Of the photographs of ImageNet, by colour; what everybody subtracts and divides by. */
static const float pixel_mean[COLOURS] = {0.485f, 0.456f, 0.406f};
static const float pixel_deviation[COLOURS] = {0.229f, 0.224f, 0.225f};

static int check(const struct model_config *config, struct err *err)
{
    if (config->patch == 0 || config->side == 0 || config->side > SIDE_MAX ||
        config->side % config->patch != 0) {
        err_set(err, -EINVAL, "the side of the pictures is not divisible by the model's patch");
        err_expected(err, "a multiple of %" PRIu32 " pixels up to %d", config->patch, SIDE_MAX);
        err_found(err, "%" PRIu32, config->side);
        return -EINVAL;
    }
    if (config->classes == 0 || config->classes > CLASSES_MAX) {
        err_set(err, -EINVAL, "the number of classes is out of range");
        err_expected(err, "1 to %d", CLASSES_MAX);
        err_found(err, "%" PRIu32, config->classes);
        return -EINVAL;
    }
    return 0;
}

/* Initial weights: small models learn faster where what goes into a block keeps its size, hence 1 /
 * sqrt(inputs) and not GPT-2's 0.02. A head of zeros learns slower. */
static struct block_config block(const struct model_config *config)
{
    return (struct block_config){.width = config->width,
                                 .heads = config->heads,
                                 .kv_heads = config->heads,
                                 .mlp_width = model_mlp_width(config),
                                 .norm = NORM_LAYER,
                                 .epsilon = 1e-6,
                                 .bias = true,
                                 .deviation = 1 / sqrt(config->width),
                                 .residual_deviation =
                                     1 / sqrt(2.0 * config->layers * config->width)};
}

static uint64_t tokens(const struct model_config *config)
{
    uint64_t edge = config->side / config->patch;
    return edge * edge;
}

static uint64_t patch_width(const struct model_config *config)
{
    return (uint64_t)config->patch * config->patch * COLOURS;
}

static int describe_embed(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    const struct param_spec weight = {.name = "embed.patch.weight",
                                      .rows = config->width,
                                      .cols = patch_width(config),
                                      .decay = true,
                                      .init = PARAM_NORMAL,
                                      .deviation = 1 / sqrt((double)patch_width(config))};
    const struct param_spec bias = {
        .name = "embed.patch.bias", .rows = config->width, .init = PARAM_ZEROS};
    const struct param_spec positions = {.name = "embed.positions.weight",
                                         .rows = tokens(config),
                                         .cols = config->width,
                                         .decay = true,
                                         .init = PARAM_NORMAL,
                                         .deviation = 0.02};
    int status = model_add_param(model, &weight, &model->patch.weight, err);
    if (status == 0)
        status = model_add_param(model, &bias, &model->patch.bias, err);
    return status < 0 ? status : model_add_param(model, &positions, &model->embed_positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    uint64_t room = model_logits_cols(model, config->classes) - config->classes;
    const struct param_spec weight = {.name = "head.weight",
                                      .rows = config->classes,
                                      .cols = config->width,
                                      .padding_rows = room,
                                      .decay = true,
                                      .init = PARAM_NORMAL,
                                      .deviation = 0.02};
    const struct param_spec bias = {
        .name = "head.bias", .rows = config->classes, .padding_rows = room, .init = PARAM_ZEROS};
    int status = model_add_param(model, &weight, &model->head.weight, err);
    return status < 0 ? status : model_add_param(model, &bias, &model->head.bias, err);
}

static int plan(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    model->head_rows = model->logits_rows = model->items;
    model->classes = config->classes;
    model->logits_cols = model_logits_cols(model, model->classes);
    model->patch.rows = model->rows;
    model->patch.in = patch_width(config);
    model->patch.out = config->width;
    model->patch.has_bias = true;
    model->head.rows = model->items;
    model->head.in = config->width;
    model->head.out = model->logits_cols;
    model->head.has_bias = true;
    model->patch.adds_gradients = model->head.adds_gradients = model->config.adds_gradients;
    int status = linear_plan(&model->patch, model->ops, err);
    return status < 0 ? status : linear_plan(&model->head, model->ops, err);
}

static uint64_t patch_elements(const struct model *model)
{
    return model->rows * model->patch.in;
}

static void embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const struct model_config *config = &model->config;
    const void *weights = model_unit_weights(model, pass, MODEL_UNIT_EMBED);
    void *patches = arena_at(pass->activations, pass->layout.patches);
    void *embedded =
        arena_at(pass->activations, pass->layout.d_normed); /* free in a forward pass */
    ops->table->patches(ops, patches, pass->input->images, model->items, config->side,
                        config->patch, pixel_mean, pixel_deviation);
    linear_forward(&model->patch, ops, weights, patches, embedded);
    ops->table->positions_fwd(ops, hidden, embedded,
                              linear_weights(ops, weights, model->embed_positions), model->items,
                              model->tokens, config->width);
}

static void embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    const struct unit_gradients gradients = model_unit_gradients(model, pass, MODEL_UNIT_EMBED);
    void *d_positions = linear_gradients(ops, &gradients, model->embed_positions);
    if (d_positions)
        ops->table->positions_bwd(ops, d_positions, d_hidden, model->items, model->tokens,
                                  model->config.width, model->config.adds_gradients);
    linear_backward(&model->patch, ops, model_unit_weights(model, pass, MODEL_UNIT_EMBED),
                    arena_at(pass->activations, pass->layout.patches), d_hidden, &gradients, NULL);
}

/* From normed to losses; the logits become their gradient where gradient_scale is not NULL. */
static void head_losses(struct model *model, const struct model_pass *pass,
                        const struct model_result *result, const double *gradient_scale)
{
    struct ops *ops = model->ops;
    void *pooled = arena_at(pass->activations, pass->layout.pooled);
    void *logits = arena_at(pass->activations, pass->layout.logits);
    ops->table->pool_fwd(ops, pooled, arena_at(pass->activations, pass->layout.normed),
                         model->items, model->tokens, model->config.width);
    linear_forward(&model->head, ops, model_unit_weights(model, pass, model_unit_head(model)),
                   pooled, logits);
    const struct xent_shape shape = {.items = model->items,
                                     .tokens = 1,
                                     .target_stride = 1,
                                     .classes = model->classes,
                                     .stride = model->logits_cols};
    const struct xent_mix mix = {pass->input->partner_labels, pass->input->label_weights};
    ops->table->xent(ops, &shape, logits, result->losses, result->correct, pass->input->labels,
                     mix.targets ? &mix : NULL, gradient_scale);
}

static void head_forward(struct model *model, const struct model_pass *pass,
                         const struct model_result *result)
{
    head_losses(model, pass, result, NULL);
}

static void head_backward(struct model *model, const struct model_pass *pass,
                          const struct model_result *result)
{
    struct ops *ops = model->ops;
    uint64_t head = model_unit_head(model);
    const struct unit_gradients gradients = model_unit_gradients(model, pass, head);
    void *d_pooled = arena_at(pass->activations, pass->layout.d_pooled);
    head_losses(model, pass, result, pass->input->loss_scale);
    linear_backward(&model->head, ops, model_unit_weights(model, pass, head),
                    arena_at(pass->activations, pass->layout.pooled),
                    arena_at(pass->activations, pass->layout.logits), &gradients, d_pooled);
    ops->table->pool_bwd(ops, arena_at(pass->activations, pass->layout.d_normed), d_pooled,
                         model->items, model->tokens, model->config.width);
}

static double flops(const struct model *model)
{
    struct linear head = model->head;
    head.out = model->classes; /* padding is no work of the model's */
    return linear_flops(&model->patch,
                        1 + model_is_trained(model, MODEL_UNIT_EMBED, model->patch.weight)) +
           linear_flops(&head, 2 + model_is_trained(model, model_unit_head(model), head.weight));
}

const struct model_task model_task_image = {
    .check = check,
    .tokens = tokens,
    .describe_embed = describe_embed,
    .describe_head = describe_head,
    .plan = plan,
    .patch_elements = patch_elements,
    .embed_forward = embed_forward,
    .embed_backward = embed_backward,
    .head_forward = head_forward,
    .head_backward = head_backward,
    .flops = flops,
};

const struct model_kind model_kind_vit = {.task = &model_task_image, .block = block};
