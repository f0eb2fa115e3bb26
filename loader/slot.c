/*
 * slot — a micro-batch, from the plan to the consumer and back.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct field_type {
    const char *name;
    enum dtype dtype;
} weights_field = {"label_weight", DTYPE_F32}, valid_field = {"valid", DTYPE_BOOL},
  tokens_field = {"tokens", DTYPE_I32};

/* at: offset in the memory. */
static void add_field(struct load_slot *slot, struct field_type type, enum batch_memory_kind kind,
                      uint64_t at, uint32_t rank, const uint64_t *shape)
{
    struct batch_memory *memory = slot->memories[kind];
    struct batch_field *field = &slot->batch.fields[slot->batch.fields_count++];
    *field = (struct batch_field){.name = type.name,
                                  .dtype = type.dtype,
                                  .rank = rank,
                                  .data = memory->data + at,
                                  .memory = memory};
    int64_t stride = (int64_t)dtype_bytes(type.dtype);
    for (uint32_t i = rank; i-- > 0;) {
        field->shape[i] = shape[i];
        field->stride_bytes[i] = stride;
        stride *= (int64_t)shape[i];
    }
}

static void add_images(struct load_slot *slot, struct field_type type, uint64_t offset,
                       struct field_size size, const struct normalize_options *normalize)
{
    const uint64_t items = slot->batch.items_count, height = size.height, width = size.width,
                   channels = normalize->channels;
    add_field(slot, type, BATCH_MEMORY_LARGE, offset, 4,
              normalize->layout == IMAGE_LAYOUT_CHW ? (uint64_t[]){items, channels, height, width}
                                                    : (uint64_t[]){items, height, width, channels});
}

static void add_image_fields(const struct loader *loader, struct load_slot *slot)
{
    const struct loader_options *options = &loader->options;
    const struct normalize_options *normalize = &options->image.normalize;
    const struct field_type images_field = {"image", normalize->dtype},
                            labels_field = {"label", options->image.label_dtype},
                            partners_field = {"partner_label", options->image.label_dtype};
    const uint64_t items = slot->batch.items_count,
                   labels_bytes = options->batching.micro * dtype_bytes(options->image.label_dtype);
    add_images(slot, images_field, 0,
               (struct field_size){options->image.width, options->image.height}, normalize);
    add_field(slot, labels_field, BATCH_MEMORY_SMALL, 0, 1, (uint64_t[]){items});
    if (!loader->pool.mixup)
        return;
    add_field(slot, partners_field, BATCH_MEMORY_SMALL, labels_bytes, 1, (uint64_t[]){items});
    add_field(slot, weights_field, BATCH_MEMORY_SMALL, 2 * labels_bytes, 1, (uint64_t[]){items});
}

/* Its array is the last of the small memory. */
static uint64_t valid_offset(const struct loader *loader)
{
    return loader->memories[BATCH_MEMORY_SMALL].bytes - loader->options.batching.micro;
}

/* Labels or an image. */
static void add_pixels(const struct loader *loader, struct load_slot *slot, uint32_t number)
{
    const struct loader_field *field = &loader->options.fields[number];
    const struct field_size size = field_target_size(loader, number);
    const struct field_type type = {field->name, field_dtype(field)};
    const uint64_t at = fields_large_offset(loader, number);
    if (field->decode == LOADER_FIELD_IMAGE)
        add_images(slot, type, at, size, &field->normalize);
    else
        add_field(slot, type, BATCH_MEMORY_LARGE, at, 3,
                  (uint64_t[]){slot->batch.items_count, size.height, size.width});
}

static void add_tokens(const struct loader *loader, struct load_slot *slot, uint32_t number)
{
    const struct loader_field *field = &loader->options.fields[number];
    const uint64_t items = slot->batch.items_count, at = fields_offset(loader, number),
                   tokens_bytes = (uint64_t)loader->options.batching.micro * field->length * 4;
    add_field(slot, (struct field_type){field->name, DTYPE_I32}, BATCH_MEMORY_SMALL, at, 2,
              (uint64_t[]){items, field->length});
    add_field(slot, (struct field_type){field_length_name(loader, number), DTYPE_I32},
              BATCH_MEMORY_SMALL, at + tokens_bytes, 1, (uint64_t[]){items});
}

static void add_fields(const struct loader *loader, struct load_slot *slot)
{
    const struct loader_options *options = &loader->options;
    uint64_t items = slot->batch.items_count;
    if (options->decode == LOADER_IMAGE) {
        add_image_fields(loader, slot);
    } else if (options->decode == LOADER_TOKENS) {
        add_field(slot, tokens_field, BATCH_MEMORY_LARGE, 0, 2,
                  (uint64_t[]){items, (uint64_t)options->text.block + 1});
    }
    for (uint32_t f = 0; f < options->fields_count; f++) {
        const struct loader_field *field = &options->fields[f];
        if (field_is_large(field))
            add_pixels(loader, slot, f);
        else if (field_length_name(loader, f))
            add_tokens(loader, slot, f);
        else if (!field_is_ragged(field))
            add_field(slot, (struct field_type){field->name, field_dtype(field)},
                      BATCH_MEMORY_SMALL, fields_offset(loader, f), 1, (uint64_t[]){items});
    }
    if (options->pad_last)
        add_field(slot, valid_field, BATCH_MEMORY_SMALL, valid_offset(loader), 1,
                  (uint64_t[]){items});
}

static void *allocate(uint64_t count, uint64_t bytes)
{
    return calloc(count ? count : 1, bytes);
}

int slot_open(const struct loader *loader, struct load_slot *slot, struct err *err)
{
    uint64_t items = loader->options.batching.micro, pieces = items * loader->pieces_max;
    slot->items = allocate(items, sizeof *slot->items);
    slot->load_items = allocate(items, sizeof *slot->load_items);
    slot->pieces = allocate(pieces, sizeof *slot->pieces);
    slot->bytes =
        allocate(loader->options.decode == LOADER_BYTES ? pieces : 0, sizeof *slot->bytes);
    slot->places = allocate(items * loader->options.fields_count, sizeof *slot->places);
    if (!slot->items || !slot->load_items || !slot->pieces || !slot->bytes || !slot->places)
        return err_set(err, -ENOMEM, "out of memory for a micro-batch of %" PRIu64 " samples",
                       items);
    return 0;
}

void slot_close(struct load_slot *slot)
{
    free(slot->items);
    free(slot->load_items);
    free(slot->pieces);
    free(slot->bytes);
    free(slot->places);
}

void slot_begin(struct load_slot *slot, const struct plan_micro *micro, uint32_t items_count)
{
    slot->micro = *micro;
    slot->set_digest = slot->sequence_digest = 0;
    slot->pieces_left = 0;
    slot->items_left = items_count;
    slot->read_done_ns = 0;
    slot->is_ready = false;
    atomic_store(&slot->references, 1);
    slot->failed_item = UINT32_MAX;
    slot->batch = (struct batch){.epoch = micro->epoch,
                                 .step = micro->step,
                                 .micro = micro->micro,
                                 .last_of_step = micro->last_of_step,
                                 .items_count = items_count,
                                 .items = slot->items};
    memset(slot->items, 0, items_count * sizeof slot->items[0]);
    memset(slot->load_items, 0, items_count * sizeof slot->load_items[0]);
}

static bool has_dense_fields(const struct loader *loader)
{
    return loader->memories[BATCH_MEMORY_LARGE].bytes > 0 ||
           loader->memories[BATCH_MEMORY_SMALL].bytes > 0;
}

void slot_acquire_memory(struct loader *loader, struct load_slot *slot)
{
    if (!has_dense_fields(loader) || slot->memories[BATCH_MEMORY_LARGE] ||
        slot->memories[BATCH_MEMORY_SMALL])
        return;
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++)
        slot->memories[kind] = batch_memory_acquire(loader, kind);
    add_fields(loader, slot);
}

void slot_release_memory(struct load_slot *slot)
{
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++) {
        batch_memory_unref(slot->memories[kind]);
        slot->memories[kind] = NULL;
    }
    for (uint32_t i = 0; i < LOADER_FIELDS_MAX; i++) {
        batch_memory_unref(slot->ragged[i]);
        slot->ragged[i] = NULL;
    }
}

int slot_wait_for_memory(const struct load_slot *slot, struct err *err)
{
    int status = 0;
    for (uint32_t kind = 0; !status && kind < BATCH_MEMORY_KINDS; kind++)
        if (slot->memories[kind])
            status = batch_memory_wait(slot->memories[kind], err);
    return status;
}

void slot_store_valid(const struct loader *loader, struct load_slot *slot, uint32_t item)
{
    if (loader->options.pad_last && slot->memories[BATCH_MEMORY_SMALL])
        slot->memories[BATCH_MEMORY_SMALL]->data[valid_offset(loader) + item] =
            !slot->items[item].is_padding;
}

void slot_clear(struct loader *loader, struct load_slot *slot)
{
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        struct load_item *load = &slot->load_items[i];
        if (load->shard)
            shard_cache_put(loader->cache, load->location.shard);
        if (load->substitute_shard)
            shard_cache_put(loader->cache, load->substitute_shard_number);
        substitute_free(&loader->memory, load->substitute_data, load->substitute_bytes);
        load->shard = load->substitute_shard = NULL;
        load->substitute_data = NULL;
        load->substitute_bytes = 0;
        ragged_clear(loader, slot, i);
    }
    slot->batch.items_count = 0;
}

void slot_release_chunks(struct loader *loader, struct load_slot *slot, uint32_t item)
{
    const struct load_piece *pieces = loader_pieces(loader, slot, item);
    for (uint32_t k = 0; k < slot->load_items[item].pieces_count; k++)
        if (pieces[k].chunk)
            chunk_release(loader, pieces[k].chunk);
}

/* Formats the reason as "WHAT: expected X, found Y", truncated to fit. */
void slot_note_bad(struct load_slot *slot, uint32_t item, const struct err *why)
{
    struct load_item *load = &slot->load_items[item];
    bool has_both = why->expected[0] && why->found[0];
    load->is_bad = true;
    load->bad_offset = why->offset;
    int bytes = snprintf(load->reason, sizeof load->reason, "%s%s%.80s%s%.80s", why->what,
                         has_both ? ": expected " : "", has_both ? why->expected : "",
                         has_both ? ", found " : "", has_both ? why->found : "");
    if (bytes >= (int)sizeof load->reason)
        memcpy(load->reason + sizeof load->reason - 4, "...", 4);
}

void slot_fail(struct load_slot *slot, uint32_t item, const struct err *why)
{
    if (item >= slot->failed_item)
        return;
    slot->failed_item = item;
    slot->err = *why;
}

bool slot_note_ready(struct loader *loader, struct load_slot *slot)
{
    slot->is_ready = true;
    loader->ready++;
    stats_update_consumer_stall(loader);
    return loader->consumer.is_waiting && slot == loader_slot(loader, loader->taken);
}

void slot_set_ready(struct loader *loader, struct load_slot *slot)
{
    if (slot_note_ready(loader, slot))
        pthread_cond_signal(&loader->consumer.wake);
}
