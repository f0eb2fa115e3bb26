/*
 * snapshot — see snapshot.h.
 */
#include "ckpt/snapshot.h"

#include "base/bytes.h"
#include "ckpt/manifest.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum block_state { PENDING, TAKING, COPYING, STAGED, TAKEN };
enum { CALLER, WRITER };

static int open_copier(struct device *device, struct snapshot_copier *copier, struct err *err)
{
    int status = device->ops->stream_open(device, &copier->stream, err);
    return status ? status : device->ops->event_open(device, &copier->copied, err);
}

/* What a device needs to copy: two streams, and an event a buffer. */
static int open_copies(struct snapshot *snapshot, struct err *err)
{
    struct device *device = snapshot->device;
    int status = 0;
    snapshot->arrived = calloc(snapshot->buffers_count, sizeof(struct device_event *));
    if (!snapshot->arrived)
        return err_set(err, -ENOMEM, "out of memory for the events of %u buffers", snapshot->buffers_count);
    for (unsigned i = 0; i < snapshot->buffers_count && !status; i++)
        status = device->ops->event_open(device, &snapshot->arrived[i], err);
    for (int i = 0; i < 2 && !status; i++)
        status = open_copier(device, &snapshot->copiers[i], err);
    return status;
}

static void close_copies(struct snapshot *snapshot)
{
    const struct device_ops *ops = snapshot->device->ops;
    for (int i = 0; i < 2; i++) {
        ops->event_close(snapshot->device, snapshot->copiers[i].copied);
        ops->stream_close(snapshot->device, snapshot->copiers[i].stream);
    }
    for (unsigned i = 0; i < snapshot->buffers_count && snapshot->arrived; i++)
        ops->event_close(snapshot->device, snapshot->arrived[i]);
    free(snapshot->arrived);
}

static int alloc_staging(struct snapshot *snapshot, struct err *err)
{
    size_t bytes = (size_t)snapshot->buffers_count * CKPT_BLOCK_BYTES;
    void *memory = NULL;
    int status = 0;
    if (snapshot->device)
        status = snapshot->device->ops->mem_alloc(snapshot->device, MEM_PINNED, bytes, &memory, err);
    else if (!(memory = aligned_alloc(IO_ALIGN_BYTES, bytes)))
        status = err_set(err, -ENOMEM, "out of memory for %zu bytes of staging", bytes);
    snapshot->staging = memory;
    return status;
}

int snapshot_init(struct snapshot *snapshot, const struct layout *layout, struct device *device,
                  struct device_stream *updates, unsigned buffers_count, struct err *err)
{
    assert(buffers_count >= SNAPSHOT_BUFFERS_MIN);
    *snapshot = (struct snapshot){
        .layout = layout, .device = device, .updates = updates, .buffers_count = buffers_count};
    pthread_mutex_init(&snapshot->mutex, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
    snapshot->state = calloc(layout->blocks_count, sizeof *snapshot->state);
    snapshot->block_of = calloc(buffers_count, sizeof *snapshot->block_of);
    snapshot->bytes = calloc(buffers_count, sizeof *snapshot->bytes);
    snapshot->free_list = calloc(buffers_count, sizeof *snapshot->free_list);
    snapshot->staged = calloc(buffers_count, sizeof *snapshot->staged);
    int status = 0;
    if (!snapshot->state || !snapshot->block_of || !snapshot->bytes || !snapshot->free_list ||
        !snapshot->staged)
        status = err_set(err, -ENOMEM, "out of memory for a snapshot of %llu blocks",
                         (unsigned long long)layout->blocks_count);
    if (!status)
        status = alloc_staging(snapshot, err);
    if (!status && device)
        status = open_copies(snapshot, err);
    if (status)
        snapshot_deinit(snapshot);
    return status;
}

void snapshot_deinit(struct snapshot *snapshot)
{
    struct device *device = snapshot->device;
    if (device) {
        close_copies(snapshot);
        device->ops->mem_free(device, MEM_PINNED, snapshot->staging,
                              (size_t)snapshot->buffers_count * CKPT_BLOCK_BYTES);
    } else {
        free(snapshot->staging);
    }
    free(snapshot->state);
    free(snapshot->block_of);
    free(snapshot->bytes);
    free(snapshot->free_list);
    free(snapshot->staged);
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->mutex);
    *snapshot = (struct snapshot){0};
}

static char *own_bytes(const struct snapshot *snapshot, unsigned buffer)
{
    return snapshot->staging + (size_t)buffer * CKPT_BLOCK_BYTES;
}

const char *snapshot_bytes(const struct snapshot *snapshot, unsigned buffer)
{
    return snapshot->bytes[buffer];
}

void snapshot_allow_in_place(struct snapshot *snapshot, unsigned align_bytes)
{
    snapshot->in_place_align = snapshot->device ? 0 : align_bytes;
}

/* The events behind what was queued for a buffer. */
static int mark_copies(struct snapshot *snapshot, struct snapshot_copier *copier, unsigned buffer,
                       struct err *err)
{
    struct device *device = snapshot->device;
    int status = device->ops->event_record(device, snapshot->arrived[buffer], copier->stream, err);
    return status ? status : device->ops->event_record(device, copier->copied, copier->stream, err);
}

/* The block's bytes from wherever they lie into the buffer, zeros behind the file's end up to a multiple of 4 KiB. Those on a
 * device are there after the buffer's event. */
static int gather(struct snapshot *snapshot, int who, uint64_t block, unsigned number, struct err *err)
{
    const struct layout *layout = snapshot->layout;
    struct device *device = snapshot->device;
    struct snapshot_copier *copier = &snapshot->copiers[who];
    char *buffer = own_bytes(snapshot, number);
    uint64_t begin = block * CKPT_BLOCK_BYTES, bytes = manifest_block_bytes(layout->file_bytes, block);
    uint64_t at = 0;
    for (uint64_t s = layout->block_segment[block]; at < bytes; s++) {
        const struct layout_segment *segment = &layout->segments[s];
        uint64_t skip = begin + at - segment->offset_bytes;
        uint64_t part = bytes_min(segment->size_bytes - skip, bytes - at);
        if (device && s > 0) { /* all but the header */
            int status =
                device->ops->copy(device, copier->stream, buffer + at, segment->data + skip, part, err);
            if (status)
                return status;
        } else {
            memcpy(buffer + at, segment->data + skip, part);
        }
        at += part;
    }
    memset(buffer + bytes, 0, bytes_round_up(bytes, IO_ALIGN_BYTES) - bytes);
    return device ? mark_copies(snapshot, copier, number, err) : 0;
}

/* Where the block lies in host memory, if it lies there in one piece that can be written as it is; NULL. */
static const char *place_of(const struct snapshot *snapshot, uint64_t block)
{
    const struct layout *layout = snapshot->layout;
    const struct layout_segment *segment = &layout->segments[layout->block_segment[block]];
    uint64_t begin = block * CKPT_BLOCK_BYTES, bytes = manifest_block_bytes(layout->file_bytes, block);
    uint64_t skip = begin - segment->offset_bytes; /* the segment reaches into it, so it may begin behind */
    unsigned align = snapshot->in_place_align;
    if (align == 0 || segment->offset_bytes > begin || segment->size_bytes - skip < bytes ||
        bytes % IO_ALIGN_BYTES != 0 || (uintptr_t)(segment->data + skip) % align != 0)
        return NULL;
    return segment->data + skip;
}

/* Until what was queued for a buffer is there. */
static void await_bytes(struct snapshot *snapshot, unsigned buffer)
{
    struct err detail = {0};
    if (!snapshot->device)
        return;
    int status = snapshot->device->ops->event_wait(snapshot->device, snapshot->arrived[buffer], &detail);
    if (status)
        snapshot_fail(snapshot, status, &detail);
}

void snapshot_begin(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    assert(!snapshot->active);
    memset(snapshot->state, PENDING, snapshot->layout->blocks_count);
    for (unsigned i = 0; i < snapshot->buffers_count; i++)
        snapshot->free_list[i] = i;
    snapshot->free_count = snapshot->buffers_count;
    snapshot->staged_first = snapshot->staged_count = 0;
    snapshot->next_pending = 0;
    snapshot->left_count = snapshot->uncaptured_count = snapshot->layout->blocks_count;
    snapshot->status = 0;
    snapshot->is_quiet = false;
    snapshot->active = true;
    pthread_mutex_unlock(&snapshot->mutex);
}

static void fail_locked(struct snapshot *snapshot, int status, const struct err *detail)
{
    if (snapshot->status == 0) {
        snapshot->status = status;
        snapshot->detail = *detail;
    }
    pthread_cond_broadcast(&snapshot->changed);
}

static bool is_over(const struct snapshot *snapshot)
{
    return !snapshot->active || snapshot->status || snapshot->uncaptured_count == 0;
}

/* A pending block into a free buffer; the mutex is held on entry and return, not while the bytes are copied. */
static void stage(struct snapshot *snapshot, uint64_t block)
{
    unsigned buffer = snapshot->free_list[--snapshot->free_count];
    struct err detail = {0};
    snapshot->state[block] = COPYING;
    snapshot->copying_count++;
    pthread_mutex_unlock(&snapshot->mutex);
    int status = gather(snapshot, CALLER, block, buffer, &detail);
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->copying_count--;
    snapshot->block_of[buffer] = block;
    snapshot->state[block] = STAGED;
    snapshot->uncaptured_count--;
    snapshot->stats.copied_bytes += manifest_block_bytes(snapshot->layout->file_bytes, block);
    snapshot->staged[(snapshot->staged_first + snapshot->staged_count++) % snapshot->buffers_count] = buffer;
    if (status)
        fail_locked(snapshot, status, &detail);
    pthread_cond_broadcast(&snapshot->changed);
}

/* Until the block is captured or nothing matters any more. Waits for a buffer, and for the writer where it is taking the block. */
static void capture(struct snapshot *snapshot, uint64_t block)
{
    bool waited = false;
    while (!is_over(snapshot)) {
        switch ((enum block_state)snapshot->state[block]) {
        case STAGED:
        case TAKEN:
            return;
        case PENDING:
            if (snapshot->free_count > SNAPSHOT_RESERVE) {
                stage(snapshot, block);
                return;
            }
            snapshot->stats.buffer_waits_count += !waited;
            waited = true;
            break;
        case TAKING:
        case COPYING:
            break;
        }
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
    }
}

/* The update comes after all copies that are queued: that of a block that the writer took may still be under way. */
static void order_copies(struct snapshot *snapshot)
{
    const struct device_ops *ops = snapshot->device->ops;
    struct err detail = {0};
    int status = 0;
    for (int i = 0; i < 2 && !status; i++) {
        struct device_event *copied = snapshot->copiers[i].copied;
        status = snapshot->updates
                     ? ops->stream_wait_event(snapshot->device, snapshot->updates, copied, &detail)
                     : ops->event_wait(snapshot->device, copied, &detail);
    }
    if (status)
        snapshot_fail(snapshot, status, &detail);
}

void snapshot_before_update(struct snapshot *snapshot, uint32_t group)
{
    const struct layout *layout = snapshot->layout;
    assert(group < layout->groups_count);
    pthread_mutex_lock(&snapshot->mutex);
    for (uint64_t r = layout->range_index[group]; r < layout->range_index[group + 1] && !is_over(snapshot);
         r++)
        for (uint64_t b = layout->ranges[r].first; b < layout->ranges[r].end; b++)
            capture(snapshot, b);
    bool copies = snapshot->device && snapshot->active && !snapshot->status;
    pthread_mutex_unlock(&snapshot->mutex);
    if (copies)
        order_copies(snapshot);
}

void snapshot_be_quiet(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->is_quiet = true;
    pthread_mutex_unlock(&snapshot->mutex);
}

struct snapshot_stats snapshot_stats(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    struct snapshot_stats stats = snapshot->stats;
    pthread_mutex_unlock(&snapshot->mutex);
    return stats;
}

/* The first pending block into a free buffer of the writer's; the mutex as for stage. */
static void take_pending_block(struct snapshot *snapshot, uint64_t block, unsigned *ret_buffer)
{
    unsigned buffer = snapshot->free_list[--snapshot->free_count];
    struct err detail = {0};
    int status = 0;
    snapshot->bytes[buffer] = snapshot->is_quiet ? place_of(snapshot, block) : NULL;
    if (!snapshot->bytes[buffer]) {
        snapshot->bytes[buffer] = own_bytes(snapshot, buffer);
        snapshot->state[block] = TAKING;
        pthread_mutex_unlock(&snapshot->mutex);
        status = gather(snapshot, WRITER, block, buffer, &detail);
        pthread_mutex_lock(&snapshot->mutex);
    }
    snapshot->state[block] = TAKEN;
    snapshot->uncaptured_count--;
    if (status)
        fail_locked(snapshot, status, &detail);
    pthread_cond_broadcast(&snapshot->changed);
    *ret_buffer = buffer;
}

static bool find_pending(struct snapshot *snapshot)
{
    uint64_t count = snapshot->layout->blocks_count;
    while (snapshot->next_pending < count && snapshot->state[snapshot->next_pending] != PENDING)
        snapshot->next_pending++;
    return snapshot->next_pending < count;
}

enum snapshot_next snapshot_take(struct snapshot *snapshot, bool take_pending, unsigned *ret_buffer,
                                 uint64_t *ret_block)
{
    enum snapshot_next next = SNAPSHOT_LATER;
    pthread_mutex_lock(&snapshot->mutex);
    if (snapshot->left_count == 0) {
        next = SNAPSHOT_ALL;
    } else if (snapshot->staged_count > 0) {
        unsigned buffer = snapshot->staged[snapshot->staged_first];
        snapshot->staged_first = (snapshot->staged_first + 1) % snapshot->buffers_count;
        snapshot->staged_count--;
        snapshot->state[snapshot->block_of[buffer]] = TAKEN;
        snapshot->bytes[buffer] = own_bytes(snapshot, buffer);
        *ret_buffer = buffer;
        *ret_block = snapshot->block_of[buffer];
        next = SNAPSHOT_GOT;
    } else if (take_pending && snapshot->free_count > 0 && find_pending(snapshot)) {
        *ret_block = snapshot->next_pending;
        take_pending_block(snapshot, *ret_block, ret_buffer);
        next = SNAPSHOT_GOT;
    }
    if (next == SNAPSHOT_GOT)
        snapshot->left_count--;
    pthread_mutex_unlock(&snapshot->mutex);
    if (next == SNAPSHOT_GOT)
        await_bytes(snapshot, *ret_buffer);
    return next;
}

void snapshot_release(struct snapshot *snapshot, unsigned buffer)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->free_list[snapshot->free_count++] = buffer;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->mutex);
}

void snapshot_wait(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    while (snapshot->copying_count > 0 && snapshot->staged_count == 0)
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
    pthread_mutex_unlock(&snapshot->mutex);
}

void snapshot_fail(struct snapshot *snapshot, int status, const struct err *detail)
{
    pthread_mutex_lock(&snapshot->mutex);
    fail_locked(snapshot, status, detail);
    pthread_mutex_unlock(&snapshot->mutex);
}

int snapshot_status(struct snapshot *snapshot, struct err *err)
{
    pthread_mutex_lock(&snapshot->mutex);
    int status = snapshot->status;
    if (status && err)
        *err = snapshot->detail;
    pthread_mutex_unlock(&snapshot->mutex);
    return status;
}

void snapshot_end(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->active = false; /* the caller copies no more; one copy may be under way */
    pthread_cond_broadcast(&snapshot->changed);
    while (snapshot->copying_count > 0)
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
    pthread_mutex_unlock(&snapshot->mutex);
    for (int i = 0; i < 2 && snapshot->device; i++)
        snapshot->device->ops->stream_sync(snapshot->device, snapshot->copiers[i].stream, NULL);
}
