/*
 * mixup_batch — mixes each image of a micro-batch with its predecessor (mixup and cutmix).
 *
 * A micro-batch always has the same images, so its pairs do not depend on the worker. Images are
 * mixed in place from last to first, so that each predecessor is still unmixed. The first image is
 * mixed with a copy of the last.
 */
#include "loader/state.h"

#include <string.h>

/* Returns -1 if all items before `end` were skipped. */
static int64_t previous_unskipped_item(const struct load_slot *slot, int64_t end)
{
    do
        end--;
    while (end >= 0 && slot->items[end].skipped);
    return end;
}

static uint8_t *item_picture(const struct load_slot *slot, int64_t item)
{
    const struct batch_field *images = &slot->batch.fields[0];
    return (uint8_t *)images->data + item * images->stride_bytes[0];
}

/* Depends on the planned sample, even if it was substituted. */
static struct mixup_choice choose(const struct loader *loader, struct sample_ref ref)
{
    return mixup_choose(loader->pool.mixup, loader->options.image.width,
                        loader->options.image.height, loader->order.seed, ref.dataset, ref.epoch,
                        ref.sample);
}

void mix_slot_images(struct load_worker *worker, struct load_slot *slot)
{
    const struct loader *loader = worker->loader;
    const uint32_t width = loader->options.image.width, height = loader->options.image.height;
    const struct batch_field *labels = &slot->batch.fields[1], *partners = &slot->batch.fields[2];
    const size_t label_bytes = dtype_bytes(labels->dtype);
    float *weights = slot->batch.fields[3].data;
    const int64_t last = previous_unskipped_item(slot, slot->batch.items_count);
    if (last >= 0)
        memcpy(worker->picture, item_picture(slot, last), loader_picture_bytes(loader));
    for (int64_t item = last, before; item >= 0; item = before) {
        before = previous_unskipped_item(slot, item);
        const int64_t partner = before >= 0 ? before : last;
        struct mixup_choice choice = {.kind = MIXUP_NONE};
        if (partner != item)
            choice = choose(loader, slot->items[item].ref);
        mixup_apply(choice, item_picture(slot, item),
                    before >= 0 ? item_picture(slot, before) : worker->picture, width, height);
        const int64_t source = choice.kind == MIXUP_NONE ? item : partner;
        memcpy((uint8_t *)partners->data + (size_t)item * label_bytes,
               (const uint8_t *)labels->data + (size_t)source * label_bytes, label_bytes);
        weights[item] = mixup_label_weight(choice, width, height);
    }
}
