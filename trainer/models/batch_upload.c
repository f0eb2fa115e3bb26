/*
 * batch_upload — see batch_upload.h.
 */
#include "trainer/models/batch_upload.h"

#include "trainer/ops/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool needs_rows_by_token(const struct batch_upload *upload)
{
    return !upload->options.images && upload->ops->table->embed_bwd_needs_rows_by_id;
}

/* Byte offsets. Computed arrays come first, so that one copy transfers all of them. */
struct slot_layout {
    uint64_t targets, partners, weights, row_starts, rows_by_token, computed_bytes;
    uint64_t tokens, images, bytes;
};

static struct slot_layout slot_layout(const struct batch_upload *upload)
{
    const struct batch_upload_options *o = &upload->options;
    struct arena_layout l = {0};
    struct slot_layout s = {0};
    uint64_t rows = o->images ? o->items : o->items * o->block;
    s.targets = arena_take(&l, rows, sizeof(int32_t));
    s.partners = arena_take(&l, o->mixup ? rows : 0, sizeof(int32_t));
    s.weights = arena_take(&l, o->mixup ? rows : 0, sizeof(float));
    s.row_starts = arena_take(&l, o->document_starts ? rows : 0, sizeof(int32_t));
    s.rows_by_token = arena_take(&l, needs_rows_by_token(upload) ? rows : 0, sizeof(int32_t));
    s.computed_bytes = l.bytes;
    s.tokens = arena_take(&l, o->images ? 0 : o->items * (o->block + 1), sizeof(int32_t));
    s.images = arena_take(&l, o->images ? o->items * o->side * o->side * 3 : 0, 1);
    s.bytes = l.bytes;
    return s;
}

static struct batch_upload_arrays arrays_at(const struct batch_upload *upload, void *memory)
{
    const struct slot_layout s = slot_layout(upload);
    return (struct batch_upload_arrays){
        .images = upload->options.images ? arena_at(memory, s.images) : NULL,
        .tokens = upload->options.images ? NULL : arena_at(memory, s.tokens),
        .targets = arena_at(memory, s.targets),
        .partners = upload->options.mixup ? arena_at(memory, s.partners) : NULL,
        .weights = upload->options.mixup ? arena_at(memory, s.weights) : NULL,
        .row_starts = upload->options.document_starts ? arena_at(memory, s.row_starts) : NULL,
        .rows_by_token = upload->token_counts ? arena_at(memory, s.rows_by_token) : NULL,
    };
}

static bool is_host(const struct batch_upload *upload)
{
    return upload->ops->device->ops->is_host;
}

/* Images are copied directly from the loader's buffer. If device memory is host memory, incomplete
 * batches are padded in staging memory. */
static uint64_t staging_bytes(const struct batch_upload *upload)
{
    const struct slot_layout s = slot_layout(upload);
    return is_host(upload) ? s.bytes : s.images;
}

static int init_slot(struct batch_upload *upload, struct batch_upload_slot *slot, struct err *err)
{
    struct device *device = upload->ops->device;
    int status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_LOADER),
                                        staging_bytes(upload), &slot->staging_memory, err);
    if (status)
        return status;
    slot->staging = slot->device = arrays_at(upload, slot->staging_memory);
    if (is_host(upload))
        return 0;
    status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_LOADER),
                                    slot_layout(upload).bytes, &slot->device_memory, err);
    if (status)
        return status;
    slot->device = arrays_at(upload, slot->device_memory);
    status = device->ops->event_open(device, &slot->copy_done, err);
    return status ? status : device->ops->event_open(device, &slot->use_done, err);
}

int batch_upload_init(struct batch_upload *upload, const struct batch_upload_options *options,
                      struct ops *ops, struct err *err)
{
    *upload = (struct batch_upload){.options = *options, .ops = ops};
    if (needs_rows_by_token(upload)) {
        upload->token_counts = calloc(options->vocabulary + 1, sizeof upload->token_counts[0]);
        if (!upload->token_counts)
            return err_set(err, -ENOMEM, "out of memory for sorting tokens");
    }
    int status = ops->device->ops->stream_open(ops->device, &upload->stream, err);
    for (size_t i = 0; i < BATCH_UPLOAD_SLOTS && !status; i++)
        status = init_slot(upload, &upload->slots[i], err);
    if (status)
        batch_upload_deinit(upload);
    return status;
}

void batch_upload_deinit(struct batch_upload *upload)
{
    if (!upload->ops)
        return;
    struct device *device = upload->ops->device;
    batch_upload_flush(upload, NULL);
    if (upload->stream)
        device->ops->stream_sync(device, upload->stream, NULL);
    for (size_t i = 0; i < BATCH_UPLOAD_SLOTS; i++) {
        struct batch_upload_slot *slot = &upload->slots[i];
        if (slot->copy_done)
            device->ops->event_close(device, slot->copy_done);
        if (slot->use_done)
            device->ops->event_close(device, slot->use_done);
        device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_LOADER), slot->device_memory,
                              slot_layout(upload).bytes);
        device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_LOADER), slot->staging_memory,
                              staging_bytes(upload));
    }
    if (upload->stream)
        device->ops->stream_close(device, upload->stream);
    free(upload->token_counts);
    *upload = (struct batch_upload){0};
}

static void release_batch(struct batch_upload_slot *slot)
{
    if (slot->batch && slot->loader)
        loader_release(slot->loader, slot->batch);
    slot->batch = NULL;
}

/* Waits for the slot's copies, then releases its batch. */
static int wait_and_release(struct batch_upload *upload, struct batch_upload_slot *slot,
                            struct err *err)
{
    struct device *device = upload->ops->device;
    int status =
        slot->batch && slot->copy_done ? device->ops->event_wait(device, slot->copy_done, err) : 0;
    release_batch(slot);
    return status;
}

int batch_upload_flush(struct batch_upload *upload, struct err *err)
{
    int status = 0;
    for (uint64_t i = 0; i < BATCH_UPLOAD_SLOTS && upload->ops; i++) {
        struct batch_upload_slot *slot =
            &upload->slots[(upload->pushed_count + i) % BATCH_UPLOAD_SLOTS];
        int one = wait_and_release(upload, slot, status ? NULL : err);
        status = status ? status : one;
    }
    upload->is_open = false;
    return status;
}

struct copy_source {
    const void *data;
    uint64_t bytes;
};

/* Evaluation batches have no mixup. */
static bool has_mixup(const struct batch_upload *upload, const struct batch *batch)
{
    return upload->options.mixup && batch_field_named(batch, "partner_label");
}

static void fill_partners(const struct batch_upload *upload, const struct batch_upload_slot *slot)
{
    const struct batch *batch = slot->batch;
    const struct batch_upload_options *o = &upload->options;
    const int32_t *partners = batch_field_named(batch, "partner_label")->data;
    const float *weights = batch_field_named(batch, "label_weight")->data;
    for (uint64_t i = 0; i < o->items; i++) {
        bool is_present = i < batch->items_count;
        slot->staging.partners[i] = is_present ? partners[i] : -1;
        slot->staging.weights[i] = is_present ? weights[i] : 1;
    }
}

static void prepare_images(const struct batch_upload *upload, struct batch_upload_slot *slot,
                           struct copy_source *ret_source, uint64_t *ret_valid)
{
    const struct batch *batch = slot->batch;
    const struct batch_upload_options *o = &upload->options;
    const struct batch_field *images = batch_field_named(batch, "image"),
                             *labels = batch_field_named(batch, "label");
    uint64_t image_bytes = o->side * o->side * 3;
    for (uint64_t i = 0; i < o->items; i++) {
        int32_t label = i < batch->items_count ? ((const int32_t *)labels->data)[i] : -1;
        assert(i >= batch->items_count || (label >= 0 && (uint64_t)label < o->classes));
        slot->staging.targets[i] = label;
    }
    if (has_mixup(upload, batch))
        fill_partners(upload, slot);
    *ret_source = (struct copy_source){images->data, batch->items_count * image_bytes};
    if (batch->items_count < o->items && is_host(upload)) {
        memcpy(slot->staging.images, images->data, ret_source->bytes);
        memset(slot->staging.images + ret_source->bytes, 0,
               (o->items - batch->items_count) * image_bytes);
        ret_source->data = slot->staging.images;
    }
    *ret_valid = batch->items_count;
}

/* Whether the targets differ from the next tokens: some tokens have none. */
static bool needs_targets(const struct batch_upload *upload, const struct batch *batch)
{
    return upload->options.has_lengths || batch->items_count < upload->options.items;
}

/* A document includes the document_end that ends it. A token attends only to the part of its
 * document that is in the window. */
static void fill_row_starts(const struct batch_upload *upload, int32_t *row_starts,
                            const int32_t *tokens)
{
    const struct batch_upload_options *o = &upload->options;
    for (uint64_t i = 0; i < o->items; i++) {
        int32_t start = 0;
        for (uint64_t t = 0; t < o->block; t++) {
            row_starts[i * o->block + t] = start;
            if (tokens[i * (o->block + 1) + t] == o->document_end)
                start = (int32_t)t + 1;
        }
    }
}

static void fill_rows_by_token(const struct batch_upload *upload, int32_t *rows_by_token,
                               const int32_t *tokens)
{
    const struct batch_upload_options *o = &upload->options;
    uint32_t *next = upload->token_counts;
    memset(next, 0, (o->vocabulary + 1) * sizeof next[0]);
    for (uint64_t i = 0; i < o->items; i++)
        for (uint64_t t = 0; t < o->block; t++)
            next[tokens[i * (o->block + 1) + t] + 1]++;
    for (uint64_t token = 0; token < o->vocabulary; token++)
        next[token + 1] += next[token];
    for (uint64_t i = 0; i < o->items; i++)
        for (uint64_t t = 0; t < o->block; t++)
            rows_by_token[next[tokens[i * (o->block + 1) + t]]++] = (int32_t)(i * o->block + t);
}

/* The targets of an item are its tokens after the first. Returns their number in the batch. */
static uint64_t fill_targets(const struct batch_upload *upload, const struct batch *batch,
                             const int32_t *tokens, int32_t *targets)
{
    const struct batch_upload_options *o = &upload->options;
    const int32_t *lengths =
        o->has_lengths ? batch_field_named(batch, "tokens_length")->data : NULL;
    uint64_t count = 0;
    for (uint64_t i = 0; i < o->items; i++) {
        uint64_t length = o->block + 1;
        if (i >= batch->items_count)
            length = 0;
        else if (lengths)
            length = (uint64_t)lengths[i];
        for (uint64_t t = 0; t < o->block; t++)
            targets[i * o->block + t] = t + 1 < length ? tokens[i * (o->block + 1) + t + 1] : -1;
        count += length > 0 ? length - 1 : 0;
    }
    return count;
}

static void prepare_tokens(const struct batch_upload *upload, struct batch_upload_slot *slot,
                           struct copy_source *ret_source, uint64_t *ret_valid)
{
    const struct batch *batch = slot->batch;
    const struct batch_upload_options *o = &upload->options;
    const int32_t *tokens = batch_field_named(batch, "tokens")->data;
    uint64_t row = o->block + 1, row_bytes = row * sizeof tokens[0];
    *ret_valid = batch->items_count * o->block;
    if (needs_targets(upload, batch))
        *ret_valid = fill_targets(upload, batch, tokens, slot->staging.targets);
    if (batch->items_count < o->items) {
        memcpy(slot->staging.tokens, tokens, batch->items_count * row_bytes);
        memset(slot->staging.tokens + batch->items_count * row, 0,
               (o->items - batch->items_count) * row_bytes);
        tokens = slot->staging.tokens;
    }
    if (slot->staging.row_starts)
        fill_row_starts(upload, slot->staging.row_starts, tokens);
    if (slot->staging.rows_by_token)
        fill_rows_by_token(upload, slot->staging.rows_by_token, tokens);
    *ret_source = (struct copy_source){tokens, o->items * row_bytes};
}

/* Queues the copies and makes the ops' stream wait for them. */
static int queue_copies(struct batch_upload *upload, struct batch_upload_slot *slot,
                        const struct copy_source *source, struct err *err)
{
    struct device *device = upload->ops->device;
    const struct device_ops *ops = device->ops;
    void *target =
        upload->options.images ? (void *)slot->device.images : (void *)slot->device.tokens;
    int status = ops->stream_wait_event(device, upload->stream, slot->use_done, err);
    if (!status)
        status = ops->copy(device, upload->stream, slot->device_memory, slot->staging_memory,
                           slot_layout(upload).computed_bytes, err);
    if (!status)
        status = ops->copy(device, upload->stream, target, source->data, source->bytes, err);
    if (!status)
        status = ops->event_record(device, slot->copy_done, upload->stream, err);
    if (!status)
        status = ops->stream_wait_event(device, upload->ops->stream, slot->copy_done, err);
    if (status) /* queued copies may still read the batch */
        ops->stream_sync(device, upload->stream, NULL);
    return status;
}

static struct model_input image_input(const struct batch_upload *upload,
                                      const struct batch_upload_slot *slot,
                                      const struct copy_source *source)
{
    return (struct model_input){
        .vision.images = is_host(upload) ? source->data : slot->device.images,
        .vision.labels = slot->device.targets,
        .vision.partner_labels = has_mixup(upload, slot->batch) ? slot->device.partners : NULL,
        .vision.label_weights = has_mixup(upload, slot->batch) ? slot->device.weights : NULL,
    };
}

static struct model_input token_input(const struct batch_upload *upload,
                                      const struct batch_upload_slot *slot,
                                      const struct copy_source *source)
{
    return (struct model_input){
        .language.tokens = is_host(upload) ? source->data : slot->device.tokens,
        .language.targets = needs_targets(upload, slot->batch) ? slot->device.targets : NULL,
        .language.row_starts = slot->device.row_starts,
        .language.rows_by_token = slot->device.rows_by_token,
    };
}

int batch_upload_push(struct batch_upload *upload, struct loader *loader, const struct batch *batch,
                      struct model_input *ret_input, uint64_t *ret_valid, struct err *err)
{
    assert(!upload->is_open);
    struct batch_upload_slot *slot = &upload->slots[upload->pushed_count % BATCH_UPLOAD_SLOTS];
    int released = wait_and_release(upload, slot, err);
    struct copy_source source = {0};
    uint64_t valid = 0;
    slot->loader = loader;
    slot->batch = batch;
    upload->variant = (uint32_t)(upload->pushed_count % BATCH_UPLOAD_SLOTS) * 2 +
                      (batch->items_count < upload->options.items);
    upload->pushed_count++;
    upload->is_open = true;
    if (released)
        return released;
    if (upload->options.images)
        prepare_images(upload, slot, &source, &valid);
    else
        prepare_tokens(upload, slot, &source, &valid);
    int status = is_host(upload) ? 0 : queue_copies(upload, slot, &source, err);
    if (status)
        return status;
    *ret_input = upload->options.images ? image_input(upload, slot, &source)
                                        : token_input(upload, slot, &source);
    *ret_valid = valid;
    return 0;
}

uint32_t batch_upload_variant(const struct batch_upload *upload)
{
    return upload->variant;
}

int batch_upload_pop(struct batch_upload *upload, struct err *err)
{
    assert(upload->is_open);
    upload->is_open = false;
    struct batch_upload_slot *newest =
        &upload->slots[(upload->pushed_count - 1) % BATCH_UPLOAD_SLOTS];
    if (is_host(upload)) {
        release_batch(newest);
        return 0;
    }
    struct device *device = upload->ops->device;
    int status = device->ops->event_record(device, newest->use_done, upload->ops->stream, err);
    /* Holding at most one batch lets a loader with two buffers continue. */
    for (uint64_t i = 0; i + 1 < BATCH_UPLOAD_SLOTS && !status; i++)
        status = wait_and_release(
            upload, &upload->slots[(upload->pushed_count + i) % BATCH_UPLOAD_SLOTS], err);
    return status;
}
