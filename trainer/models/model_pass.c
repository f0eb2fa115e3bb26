/*
 * model_pass — the parts of a pass that all models share: activations, blocks, the final norm, and
 * the hooks of parameter groups. See model.h.
 */
#include "trainer/models/model_kind.h"

#include <assert.h>

static void lay_out_head(const struct model *model, struct arena_layout *l,
                         struct model_layout *ret)
{
    size_t compute = ops_compute_bytes(model->ops), master = ops_master_bytes(model->ops);
    ret->normed = arena_take(l, model_hidden_elements(model), compute);
    ret->mean = arena_take(l, model->rows, master);
    ret->rstd = arena_take(l, model->rows, master);
    if (model->head_rows != model->rows)
        ret->pooled = arena_take(l, model->head_rows * model->config.width, compute);
    ret->logits = arena_take(l, model->logits_rows * model->logits_cols, compute);
}

/* The backward passes of blocks and head share the scratch memory. d_normed has the size of a
 * hidden state, so it also fits the output of a recomputed block. */
static void lay_out_scratch(const struct model *model, struct arena_layout *l,
                            struct model_layout *ret)
{
    size_t compute = ops_compute_bytes(model->ops);
    struct arena_layout head = {0};
    uint64_t d_normed = arena_take(&head, model_hidden_elements(model), compute);
    uint64_t d_pooled = arena_take(&head, model->head_rows * model->config.width, compute);
    uint64_t d_frozen =
        arena_take(&head, 2 * (uint64_t)model->config.width, ops_master_bytes(model->ops));
    ret->scratch = arena_take(l, bytes_max(head.bytes, model->block.scratch_bytes), 1);
    ret->d_normed = ret->scratch + d_normed;
    ret->d_pooled = ret->scratch + d_pooled;
    ret->d_frozen = ret->scratch + d_frozen;
}

static struct activation_plan activation_plan_of(const struct model *model,
                                                 const struct model_stage *stage)
{
    uint64_t frozen =
        model->first_trained > MODEL_UNIT_BLOCKS ? model->first_trained - MODEL_UNIT_BLOCKS : 0;
    uint64_t layers = model->config.layers;
    return (struct activation_plan){model->config.recompute_every, model->config.offload_every,
                                    stage->first_block, stage->blocks_count,
                                    (uint32_t)bytes_min(frozen, layers)};
}

static struct model_layout lay_out(const struct model *model, const struct model_stage *stage)
{
    size_t compute = ops_compute_bytes(model->ops);
    struct arena_layout one = {0}, l = {0};
    struct model_layout layout = {0};
    const struct activation_plan saved = activation_plan_of(model, stage);
    arena_take(&one, model_hidden_elements(model), compute);
    layout.hidden_bytes = one.bytes;
    layout.hidden =
        arena_take(&l, stage->blocks_count + (stage->has_head ? 1 : 0), layout.hidden_bytes);
    layout.saved = arena_take(&l, activation_slots_count(&saved), model->block.saved_bytes);
    if (stage->has_embedding) {
        layout.patches = arena_take(&l, model->task->patch_elements(model), compute);
        layout.d = arena_take(&l, model_hidden_elements(model), compute);
    }
    if (stage->has_head)
        lay_out_head(model, &l, &layout);
    lay_out_scratch(model, &l, &layout);
    layout.bytes = l.bytes;
    return layout;
}

uint64_t model_activation_bytes(const struct model *model, const struct model_stage *stage)
{
    return lay_out(model, stage).bytes;
}

uint64_t model_offload_bytes(const struct model *model, const struct model_stage *stage)
{
    const struct activation_plan saved = activation_plan_of(model, stage);
    return offload_pinned_bytes(activation_offloaded_count(&saved), model->block.saved_bytes);
}

int model_open_offload(const struct model *model, const struct model_stage *stage,
                       struct offload **ret_offload, struct err *err)
{
    const struct activation_plan saved = activation_plan_of(model, stage);
    if (model_offload_bytes(model, stage) > 0)
        return offload_open(model->ops, activation_offloaded_count(&saved),
                            model->block.saved_bytes, ret_offload, err);
    *ret_offload = NULL;
    return 0;
}

const void *model_logits(const struct model *model, const struct model_stage *stage,
                         const struct model_activations *activations)
{
    assert(stage->has_head);
    return model->logits_rows < model->head_rows
               ? NULL
               : (const char *)activations->memory + lay_out(model, stage).logits;
}

static void check_stage(const struct model *model, const struct model_stage *stage)
{
    (void)model;
    (void)stage;
    assert(stage->first_block + stage->blocks_count <= model->config.layers);
    assert(stage->blocks_count > 0 || stage->has_head);
    assert(!stage->has_embedding || stage->first_block == 0);
    assert(!stage->has_head || stage->first_block + stage->blocks_count == model->config.layers);
}

static void copy_hidden(struct model *model, void *target, const void *source)
{
    model->ops->table->pool_bwd(model->ops, target, source, model->rows, 1, model->config.width);
}

static void zero_hidden(struct model *model, void *target)
{
    model->ops->table->pool_bwd(model->ops, target, model->zeros, 1, model->rows,
                                model->config.width);
}

static void *hidden_at(const struct model_pass *pass, uint32_t block)
{
    return arena_at(pass->activations, pass->layout.hidden + block * pass->layout.hidden_bytes);
}

static void *saved_at(const struct model *model, const struct model_pass *pass,
                      const struct activation_slot *saved)
{
    return arena_at(pass->activations, pass->layout.saved + saved->slot * model->block.saved_bytes);
}

static uint64_t block_unit(const struct model_pass *pass, uint32_t block)
{
    return MODEL_UNIT_BLOCKS + (uint64_t)pass->stage->first_block + block;
}

/* block: index in the stage. */
static void forward_block(struct model *model, const struct model_pass *pass, uint32_t block,
                          void *out)
{
    const struct activation_slot slot = activation_slot_of(&pass->saved, block);
    bool moves = slot.kind == ACTIVATION_OFFLOADED && pass->offload;
    void *saved = saved_at(model, pass, &slot);
    if (moves)
        offload_before_forward(pass->offload, slot.item);
    block_forward(&model->block, model_unit_weights(model, pass, block_unit(pass, block)), saved,
                  hidden_at(pass, block), pass->input->language.row_starts, out);
    if (moves)
        offload_after_forward(pass->offload, slot.item, saved);
}

static void backward_block(struct model *model, const struct model_pass *pass, uint32_t block,
                           void *d)
{
    uint64_t unit = block_unit(pass, block);
    const struct activation_slot slot = activation_slot_of(&pass->saved, block);
    bool moves = slot.kind == ACTIVATION_OFFLOADED && pass->offload;
    void *scratch = arena_at(pass->activations, pass->layout.scratch);
    void *saved = saved_at(model, pass, &slot);
    if (slot.kind == ACTIVATION_RECOMPUTED) /* the output goes to scratch memory and is ignored */
        forward_block(model, pass, block, scratch);
    if (moves)
        offload_before_backward(pass->offload, slot.item);
    const struct unit_gradients gradients = model_unit_gradients(model, pass, unit);
    block_backward(&model->block, model_unit_weights(model, pass, unit), saved,
                   hidden_at(pass, block), pass->input->language.row_starts, scratch, &gradients,
                   d);
    if (moves)
        offload_after_backward(pass->offload, slot.item, saved);
}

static void head_norm(struct model *model, const struct model_pass *pass, const void *x)
{
    struct ops *ops = model->ops;
    const struct model_layout *l = &pass->layout;
    const struct norm_shape *shape = &model->block.norm;
    const void *weights = model_unit_weights(model, pass, model_unit_head(model));
    bool has_bias = shape->kind == NORM_LAYER;
    ops->table->norm_fwd(ops, shape, arena_at(pass->activations, l->normed),
                         arena_at(pass->activations, l->mean), arena_at(pass->activations, l->rstd),
                         x, linear_weights(ops, weights, model->norm_weight),
                         has_bias ? linear_weights(ops, weights, model->norm_bias) : NULL);
}

static void head_backward(struct model *model, const struct model_pass *pass,
                          const struct model_result *result, const void *x, void *d)
{
    struct ops *ops = model->ops;
    const struct model_layout *l = &pass->layout;
    const struct norm_shape *shape = &model->block.norm;
    uint64_t head = model_unit_head(model);
    const struct unit_gradients gradients = model_unit_gradients(model, pass, head);
    bool has_bias = shape->kind == NORM_LAYER;
    void *d_weight = linear_gradients(ops, &gradients, model->norm_weight);
    void *d_bias = has_bias ? linear_gradients(ops, &gradients, model->norm_bias) : NULL;
    if (!d_weight)
        d_weight = arena_at(pass->activations, l->d_frozen);
    if (has_bias && !d_bias)
        d_bias = arena_at(pass->activations, l->d_frozen + shape->cols * ops_master_bytes(ops));
    model->task->head(model, pass, result, pass->input->loss_scale);
    zero_hidden(model, d); /* norm_bwd adds; the final norm has no residual connection */
    ops->table->norm_bwd(
        ops, shape, d, d_weight, d_bias, arena_at(pass->activations, l->d_normed), x,
        arena_at(pass->activations, l->mean), arena_at(pass->activations, l->rstd),
        linear_weights(ops, model_unit_weights(model, pass, head), model->norm_weight),
        model->config.adds_gradients);
}

/* True if a pass in this direction visits a unit of the same group just before this unit. */
static bool continues_group(const struct model *model, const struct model_stage *stage,
                            uint64_t unit, enum pass_direction direction)
{
    uint64_t first, count, other = direction == MODEL_FORWARD ? unit - 1 : unit + 1;
    model_stage_units(model, stage, &first, &count);
    return other >= first && other < first + count &&
           params_group_of(&model->params, other) == params_group_of(&model->params, unit);
}

/* The group of the head's tied table; -1 if there is none or it is the head's own group. */
static int64_t tied_group(const struct model *model, const struct model_stage *stage)
{
    uint64_t embed = params_group_of(&model->params, MODEL_UNIT_EMBED);
    bool is_other = params_group_of(&model->params, model_unit_head(model)) != embed;
    return model->tied >= 0 && stage->has_head && is_other ? (int64_t)embed : -1;
}

static void call_hook(void (*hook)(void *context, uint64_t group, enum pass_direction direction),
                      const struct model_memory *memory, uint64_t group,
                      enum pass_direction direction)
{
    if (hook)
        hook(memory->context, group, direction);
}

static void acquire_unit(const struct model *model, const struct model_stage *stage,
                         const struct model_memory *memory, uint64_t unit,
                         enum pass_direction direction)
{
    uint64_t group = params_group_of(&model->params, unit);
    int64_t tied = tied_group(model, stage);
    bool is_held = direction == MODEL_BACKWARD && tied == (int64_t)group;
    if (!is_held && !continues_group(model, stage, unit, direction))
        call_hook(memory->acquire, memory, group, direction);
    if (unit == model_unit_head(model) && tied >= 0)
        call_hook(memory->acquire, memory, (uint64_t)tied, direction);
}

static void release_unit(const struct model *model, const struct model_stage *stage,
                         const struct model_memory *memory, uint64_t unit,
                         enum pass_direction direction)
{
    int64_t tied = tied_group(model, stage);
    if (unit == model_unit_head(model) && tied >= 0 && direction == MODEL_FORWARD)
        call_hook(memory->release, memory, (uint64_t)tied, direction);
    if (!continues_group(model, stage, unit,
                         direction == MODEL_FORWARD ? MODEL_BACKWARD : MODEL_FORWARD))
        call_hook(memory->release, memory, params_group_of(&model->params, unit), direction);
}

void model_walk(const struct model *model, const struct model_stage *stage,
                const struct model_memory *memory, enum pass_direction direction)
{
    uint64_t first, count;
    model_stage_units(model, stage, &first, &count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t unit = direction == MODEL_FORWARD ? first + i : first + count - 1 - i;
        acquire_unit(model, stage, memory, unit, direction);
        release_unit(model, stage, memory, unit, direction);
    }
}

void model_forward(struct model *model, const struct model_stage *stage,
                   const struct model_memory *memory, const struct model_activations *activations,
                   const struct model_input *input, const void *hidden_in, void *hidden_out,
                   const struct model_result *result)
{
    check_stage(model, stage);
    const struct model_pass pass = {.stage = stage,
                                    .memory = memory,
                                    .activations = activations->memory,
                                    .offload = result ? NULL : activations->offload,
                                    .input = input,
                                    .layout = lay_out(model, stage),
                                    .saved = activation_plan_of(model, stage)};
    void *x = hidden_at(&pass, 0);
    if (stage->has_embedding) {
        acquire_unit(model, stage, memory, MODEL_UNIT_EMBED, MODEL_FORWARD);
        model->task->embed_forward(model, &pass, x);
        release_unit(model, stage, memory, MODEL_UNIT_EMBED, MODEL_FORWARD);
    } else {
        copy_hidden(model, x, hidden_in);
    }
    for (uint32_t i = 0; i < stage->blocks_count; i++) {
        bool leaves = i + 1 == stage->blocks_count && !stage->has_head;
        acquire_unit(model, stage, memory, block_unit(&pass, i), MODEL_FORWARD);
        forward_block(model, &pass, i, leaves ? hidden_out : hidden_at(&pass, i + 1));
        release_unit(model, stage, memory, block_unit(&pass, i), MODEL_FORWARD);
    }
    assert(!result || stage->has_head);
    if (!stage->has_head)
        return;
    acquire_unit(model, stage, memory, model_unit_head(model), MODEL_FORWARD);
    head_norm(model, &pass, hidden_at(&pass, stage->blocks_count));
    if (result)
        model->task->head(model, &pass, result, NULL);
    release_unit(model, stage, memory, model_unit_head(model), MODEL_FORWARD);
}

void model_backward(struct model *model, const struct model_stage *stage,
                    const struct model_memory *memory, const struct model_activations *activations,
                    const struct model_input *input, const struct model_result *result,
                    const void *d_hidden_out, void *d_hidden_in)
{
    check_stage(model, stage);
    assert(!stage->has_head || input->loss_scale);
    assert(activations->offload || model_offload_bytes(model, stage) == 0);
    const struct model_pass pass = {.stage = stage,
                                    .memory = memory,
                                    .activations = activations->memory,
                                    .offload = activations->offload,
                                    .input = input,
                                    .layout = lay_out(model, stage),
                                    .saved = activation_plan_of(model, stage)};
    void *d = stage->has_embedding ? arena_at(pass.activations, pass.layout.d) : d_hidden_in;
    if (stage->has_head) {
        acquire_unit(model, stage, memory, model_unit_head(model), MODEL_BACKWARD);
        head_backward(model, &pass, result, hidden_at(&pass, stage->blocks_count), d);
        release_unit(model, stage, memory, model_unit_head(model), MODEL_BACKWARD);
    } else {
        copy_hidden(model, d, d_hidden_out);
    }
    for (uint32_t i = stage->blocks_count; i-- > 0;) {
        acquire_unit(model, stage, memory, block_unit(&pass, i), MODEL_BACKWARD);
        if (block_unit(&pass, i) >= model->first_trained)
            backward_block(model, &pass, i, d);
        release_unit(model, stage, memory, block_unit(&pass, i), MODEL_BACKWARD);
    }
    if (stage->has_embedding) {
        acquire_unit(model, stage, memory, MODEL_UNIT_EMBED, MODEL_BACKWARD);
        if (model->first_trained == MODEL_UNIT_EMBED)
            model->task->embed_backward(model, &pass, d);
        release_unit(model, stage, memory, MODEL_UNIT_EMBED, MODEL_BACKWARD);
    }
}
