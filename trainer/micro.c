/*
 * micro — see micro.h.
 */
#include "trainer/micro.h"

#include <errno.h>
#include <string.h>

static const struct batch_field *field_named(const struct batch *batch, const char *name)
{
    for (uint32_t i = 0; i < batch->fields_count; i++)
        if (strcmp(batch->fields[i].name, name) == 0)
            return &batch->fields[i];
    return NULL;
}

static int refuse(const struct batch_item *item, const char *what, const char *advice, struct err *err)
{
    err_set(err, -EBADMSG, "sample %.*s %s", (int)item->key_bytes, item->key, what);
    err_advise(err, "%s", advice);
    return -EBADMSG;
}

static int image_input(struct run *run, const struct batch *batch, struct model_input *input,
                       uint64_t *ret_valid, struct err *err)
{
    const struct batch_field *images = field_named(batch, "image"), *labels = field_named(batch, "label");
    uint64_t items = run->batching.micro, side = run->config->data.image.size;
    for (uint64_t i = 0; i < items; i++) {
        run->targets[i] = -1;
        if (i >= batch->items_count)
            continue;
        int32_t label = ((const int32_t *)labels->data)[i];
        if (label < 0)
            return refuse(&batch->items[i], "has no label", "a ViT needs a cls member in each sample", err);
        if ((uint64_t)label >= run->config->model.classes)
            return refuse(&batch->items[i], "has a label beyond the model's classes", "raise model.classes",
                          err);
        run->targets[i] = label;
    }
    input->images = images->data;
    input->labels = run->targets;
    if (batch->items_count < items) {
        memset(run->images, 0, items * side * side * 3);
        memcpy(run->images, images->data, batch->items_count * side * side * 3);
        input->images = run->images;
    }
    *ret_valid = batch->items_count;
    return 0;
}

/* A token belongs to the document that the next document end at or behind it ends; its attention begins where that document does,
 * or where the window does. */
static void fill_row_starts(struct run *run, const int32_t *tokens)
{
    uint64_t items = run->batching.micro, block = run->config->data.text.block;
    int32_t document_end = (int32_t)run->shape.document_end;
    for (uint64_t i = 0; i < items; i++) {
        int32_t start = 0;
        for (uint64_t t = 0; t < block; t++) {
            run->row_starts[i * block + t] = start;
            if (tokens[i * (block + 1) + t] == document_end)
                start = (int32_t)t + 1;
        }
    }
}

static int token_input(struct run *run, const struct batch *batch, struct model_input *input,
                       uint64_t *ret_valid, struct err *err)
{
    const struct batch_field *tokens = field_named(batch, "tokens");
    uint64_t items = run->batching.micro, block = run->config->data.text.block, row = block + 1;
    const int32_t *source = tokens->data;
    for (uint64_t i = 0; i < batch->items_count; i++)
        for (uint64_t t = 0; t < row; t++)
            if ((uint64_t)source[i * row + t] >= run->config->model.vocabulary)
                return refuse(&batch->items[i], "has a token beyond the model's vocabulary",
                              "raise model.vocabulary", err);
    input->tokens = source;
    if (batch->items_count < items) {
        memset(run->tokens, 0, items * row * sizeof run->tokens[0]);
        memcpy(run->tokens, source, batch->items_count * row * sizeof run->tokens[0]);
        for (uint64_t i = 0; i < items; i++)
            for (uint64_t t = 0; t < block; t++)
                run->targets[i * block + t] = i < batch->items_count ? source[i * row + t + 1] : -1;
        input->tokens = run->tokens;
        input->targets = run->targets;
    }
    if (run->config->data.text.mask == CONFIG_MASK_DOCUMENT) {
        fill_row_starts(run, input->tokens);
        input->row_starts = run->row_starts;
    }
    *ret_valid = batch->items_count * block;
    return 0;
}

int micro_input(struct run *run, const struct batch *batch, struct model_input *ret_input,
                uint64_t *ret_valid, struct err *err)
{
    *ret_input = (struct model_input){0};
    return run->config->model.type == MODEL_VIT ? image_input(run, batch, ret_input, ret_valid, err)
                                                : token_input(run, batch, ret_input, ret_valid, err);
}

void micro_add_result(const struct run *run, const struct model_input *input, struct step_totals *totals)
{
    const int32_t *targets = input->labels ? input->labels : input->targets;
    uint64_t rows = model_rows(run->model);
    for (uint64_t row = 0; row < rows; row++) {
        if (targets && targets[row] < 0)
            continue;
        exact_sum_add(&totals->losses, run->losses[row]);
        totals->correct_count += run->correct[row];
    }
}
