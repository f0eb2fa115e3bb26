/*
 * vit — image classifier: patches as tokens, learned positions, and the mean of all tokens after
 * the final norm (Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021; the mean instead
 * of a class token: Beyer et al., "Better plain ViT baselines for ImageNet-1k", 2022).
 */
#include "trainer/models/model_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

enum { SIDE_MAX = 1 << 14, CLASSES_MAX = 1 << 24, COLORS = 3 };

static const float pixel_mean[COLORS] = {0.485f, 0.456f, 0.406f};
static const float pixel_deviation[COLORS] = {0.229f, 0.224f, 0.225f};

static int check(const struct model_config *model, struct err *err)
{
    const struct vision_config *config = &model->vision;
    if (config->patch == 0 || config->side == 0 || config->side > SIDE_MAX ||
        config->side % config->patch != 0) {
        err_set(err, -EINVAL, "the image side is out of range or not divisible by the patch");
        err_expected(err, "a multiple of %" PRIu32 " pixels up to %d", config->patch, SIDE_MAX);
        err_found(err, "%" PRIu32, config->side);
        return -EINVAL;
    }
    return model_check_limit("number of classes", config->classes, CLASSES_MAX, err);
}

/* Small models learn faster with initial deviations of 1/sqrt(inputs) than with GPT-2's 0.02,
 * because they preserve the scale of a block's input. A zero-initialized head learns more
 * slowly. */
static struct block_config block(const struct model_config *config)
{
    struct block_config block = model_classic_block(config);
    block.epsilon = 1e-6;
    block.deviation = 1 / sqrt(config->width);
    block.residual_deviation = 1 / sqrt(2.0 * config->layers * config->width);
    return block;
}

static uint64_t tokens(const struct model_config *config)
{
    uint64_t edge = config->vision.side / config->vision.patch;
    return edge * edge;
}

static uint64_t patch_width(const struct vision_config *config)
{
    return (uint64_t)config->patch * config->patch * COLORS;
}

static int describe_embed(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    const struct param_spec weight = {.name = "embed.patch.weight",
                                      .rows = config->width,
                                      .cols = patch_width(&config->vision),
                                      .decay = true,
                                      .init = PARAM_NORMAL,
                                      .deviation = 1 / sqrt((double)patch_width(&config->vision))};
    const struct param_spec bias = {
        .name = "embed.patch.bias", .rows = config->width, .init = PARAM_ZEROS};
    const struct param_spec positions = {.name = "embed.positions.weight",
                                         .rows = tokens(config),
                                         .cols = config->width,
                                         .decay = true,
                                         .init = PARAM_NORMAL,
                                         .deviation = 0.02};
    int status = model_add_param(model, &weight, &model->vision.patch.weight, err);
    if (status == 0)
        status = model_add_param(model, &bias, &model->vision.patch.bias, err);
    return status < 0 ? status : model_add_param(model, &positions, &model->vision.positions, err);
}

static int describe_head(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    uint64_t classes = config->vision.classes;
    uint64_t padding = model_logits_cols(model, classes) - classes;
    const struct param_spec weight = {.name = "head.weight",
                                      .rows = classes,
                                      .cols = config->width,
                                      .padding_rows = padding,
                                      .decay = true,
                                      .init = PARAM_NORMAL,
                                      .deviation = 0.02};
    const struct param_spec bias = {
        .name = "head.bias", .rows = classes, .padding_rows = padding, .init = PARAM_ZEROS};
    int status = model_add_param(model, &weight, &model->vision.head.weight, err);
    return status < 0 ? status : model_add_param(model, &bias, &model->vision.head.bias, err);
}

static int plan(struct model *model, struct err *err)
{
    const struct model_config *config = &model->config;
    struct linear *patch = &model->vision.patch, *head = &model->vision.head;
    model->head_rows = model->logits_rows = model->items;
    model->classes = config->vision.classes;
    model->logits_cols = model_logits_cols(model, model->classes);
    patch->rows = model->rows;
    patch->in = patch_width(&config->vision);
    patch->out = config->width;
    head->rows = model->items;
    head->in = config->width;
    head->out = model->logits_cols;
    patch->has_bias = head->has_bias = true;
    patch->adds_gradients = head->adds_gradients = config->adds_gradients;
    int status = linear_plan(patch, model->ops, err);
    return status < 0 ? status : linear_plan(head, model->ops, err);
}

static uint64_t patch_elements(const struct model *model)
{
    return model->rows * model->vision.patch.in;
}

static void embed_forward(struct model *model, const struct model_pass *pass, void *hidden)
{
    struct ops *ops = model->ops;
    const struct vision_config *config = &model->config.vision;
    const void *weights = model_unit_weights(model, pass, MODEL_UNIT_EMBED);
    void *patches = arena_at(pass->activations, pass->layout.patches);
    void *embedded = arena_at(pass->activations, pass->layout.d_normed); /* unused until backward */
    ops->table->patches(ops, patches, pass->input->vision.images, model->items, config->side,
                        config->patch, pixel_mean, pixel_deviation);
    linear_forward(&model->vision.patch, ops, weights, patches, embedded);
    ops->table->positions_fwd(ops, hidden, embedded,
                              linear_weights(ops, weights, model->vision.positions), model->items,
                              model->tokens, model->config.width);
}

static void embed_backward(struct model *model, const struct model_pass *pass, const void *d_hidden)
{
    struct ops *ops = model->ops;
    const struct unit_gradients gradients = model_unit_gradients(model, pass, MODEL_UNIT_EMBED);
    void *d_positions = linear_gradients(ops, &gradients, model->vision.positions);
    if (d_positions)
        ops->table->positions_bwd(ops, d_positions, d_hidden, model->items, model->tokens,
                                  model->config.width, model->config.adds_gradients);
    linear_backward(&model->vision.patch, ops, model_unit_weights(model, pass, MODEL_UNIT_EMBED),
                    arena_at(pass->activations, pass->layout.patches), d_hidden, &gradients, NULL);
}

static void head(struct model *model, const struct model_pass *pass,
                 const struct model_result *result, const double *gradient_scale)
{
    struct ops *ops = model->ops;
    const struct vision_input *input = &pass->input->vision;
    const struct model_layout *layout = &pass->layout;
    uint64_t unit = model_unit_head(model);
    const void *weights = model_unit_weights(model, pass, unit);
    void *pooled = arena_at(pass->activations, layout->pooled);
    void *logits = arena_at(pass->activations, layout->logits);
    const struct xent_shape shape = {.items = model->items,
                                     .tokens = 1,
                                     .target_stride = 1,
                                     .classes = model->classes,
                                     .stride = model->logits_cols};
    const struct xent_mix mix = {input->partner_labels, input->label_weights};
    ops->table->pool_fwd(ops, pooled, arena_at(pass->activations, layout->normed), model->items,
                         model->tokens, model->config.width);
    linear_forward(&model->vision.head, ops, weights, pooled, logits);
    ops->table->xent(ops, &shape, logits, result->losses, result->correct, input->labels,
                     mix.targets ? &mix : NULL, gradient_scale);
    if (!gradient_scale)
        return;
    const struct unit_gradients gradients = model_unit_gradients(model, pass, unit);
    void *d_pooled = arena_at(pass->activations, layout->d_pooled);
    linear_backward(&model->vision.head, ops, weights, pooled, logits, &gradients, d_pooled);
    ops->table->pool_bwd(ops, arena_at(pass->activations, layout->d_normed), d_pooled, model->items,
                         model->tokens, model->config.width);
}

static double flops(const struct model *model)
{
    const struct linear *patch = &model->vision.patch;
    struct linear head = model->vision.head;
    head.out = model->classes; /* without padding */
    return linear_flops(patch, 1 + model_is_trained(model, MODEL_UNIT_EMBED, patch->weight)) +
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
    .head = head,
    .flops = flops,
};

const struct model_kind model_kind_vit = {.task = &model_task_image, .block = block};
