#include "ckpt/save/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum block_state { PENDING, TAKING, COPYING, STAGED, TAKEN };
#define NO_BLOCK UINT64_MAX

int snapshot_count_buffers(const struct layout *layout, uint64_t staging_bytes, unsigned *ret_count,
                           struct err *err)
{
    uint64_t buffers = staging_bytes / CKPT_BLOCK_BYTES;
    if (buffers < SNAPSHOT_BUFFERS_MIN)
        return err_set(err, -EINVAL, "checkpoint: staging needs at least %d MiB",
                       SNAPSHOT_BUFFERS_MIN);
    if (buffers > layout->blocks_count + SNAPSHOT_BUFFERS_MIN) /* more would never be used */
        buffers = layout->blocks_count + SNAPSHOT_BUFFERS_MIN;
    *ret_count = (unsigned)buffers;
    return 0;
}

int snapshot_init(struct snapshot *snapshot, const struct layout *layout, struct device *device,
                  struct device_stream *updates, unsigned buffers_count, struct err *err)
{
    assert(buffers_count >= SNAPSHOT_BUFFERS_MIN);
    *snapshot = (struct snapshot){
        .layout = layout, .buffers_count = buffers_count, .awaited_block = NO_BLOCK};
    pthread_mutex_init(&snapshot->mutex, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
    snapshot->state = calloc(layout->blocks_count, sizeof *snapshot->state);
    snapshot->buffer_block = calloc(buffers_count, sizeof *snapshot->buffer_block);
    snapshot->bytes = calloc(buffers_count, sizeof *snapshot->bytes);
    snapshot->free_list = calloc(buffers_count, sizeof *snapshot->free_list);
    snapshot->staged = calloc(buffers_count, sizeof *snapshot->staged);
    int status = 0;
    if (!snapshot->state || !snapshot->buffer_block || !snapshot->bytes || !snapshot->free_list ||
        !snapshot->staged)
        status = err_set(err, -ENOMEM, "out of memory for a snapshot of %llu blocks",
                         (unsigned long long)layout->blocks_count);
    if (!status)
        status = staging_init(&snapshot->staging, layout, device, updates, buffers_count, err);
    if (status)
        snapshot_deinit(snapshot);
    return status;
}

void snapshot_deinit(struct snapshot *snapshot)
{
    staging_deinit(&snapshot->staging);
    free(snapshot->state);
    free(snapshot->buffer_block);
    free(snapshot->bytes);
    free(snapshot->free_list);
    free(snapshot->staged);
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->mutex);
    *snapshot = (struct snapshot){0};
}

const char *snapshot_bytes(const struct snapshot *snapshot, unsigned buffer)
{
    return snapshot->bytes[buffer];
}

void snapshot_allow_in_place(struct snapshot *snapshot, unsigned align_bytes)
{
    snapshot->in_place_align = align_bytes;
}

static void await_bytes(struct snapshot *snapshot, unsigned buffer)
{
    struct err detail = {0};
    int status = staging_await(&snapshot->staging, buffer, &detail);
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
    snapshot->untaken_count = snapshot->uncaptured_count = snapshot->layout->blocks_count;
    snapshot->status = 0;
    snapshot->is_frozen = false;
    snapshot->active = true;
    pthread_mutex_unlock(&snapshot->mutex);
    struct err detail = {0};
    int status = staging_copy_boundary(&snapshot->staging, &detail);
    if (status)
        snapshot_fail(snapshot, status, &detail);
}

void snapshot_await_boundary(struct snapshot *snapshot)
{
    struct err detail = {0};
    int status = staging_await_boundary(&snapshot->staging, &detail);
    if (status)
        snapshot_fail(snapshot, status, &detail);
}

static void fail_locked(struct snapshot *snapshot, int status, const struct err *detail)
{
    if (snapshot->status == 0) {
        snapshot->status = status;
        snapshot->detail = *detail;
    }
    pthread_cond_broadcast(&snapshot->changed);
}

static bool is_capture_over(const struct snapshot *snapshot)
{
    return !snapshot->active || snapshot->status || snapshot->uncaptured_count == 0;
}

/* Copies a pending block to a free buffer. The mutex is held except during the copy. */
static void stage_block(struct snapshot *snapshot, enum staging_thread thread, uint64_t block)
{
    unsigned buffer = snapshot->free_list[--snapshot->free_count];
    struct err detail = {0};
    snapshot->state[block] = COPYING;
    snapshot->copying_count++;
    pthread_mutex_unlock(&snapshot->mutex);
    int status = staging_copy(&snapshot->staging, thread, block, buffer, &detail);
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->copying_count--;
    snapshot->buffer_block[buffer] = block;
    snapshot->state[block] = STAGED;
    snapshot->uncaptured_count--;
    uint64_t bytes = snapshot->layout->blocks[block].size_bytes;
    *(thread == STAGING_CALLER ? &snapshot->stats.copied_bytes : &snapshot->stats.ahead_bytes) +=
        bytes;
    snapshot
        ->staged[(snapshot->staged_first + snapshot->staged_count++) % snapshot->buffers_count] =
        buffer;
    if (status)
        fail_locked(snapshot, status, &detail);
    pthread_cond_broadcast(&snapshot->changed);
}

/* Waits until the block is captured or no longer needed. Waits for a buffer, or for the writer if
 * it is taking the block. */
static void capture_block(struct snapshot *snapshot, uint64_t block)
{
    bool waited = false;
    while (!is_capture_over(snapshot)) {
        switch ((enum block_state)snapshot->state[block]) {
        case STAGED:
        case TAKEN:
            return;
        case PENDING:
            if (snapshot->free_count > SNAPSHOT_RESERVED_COUNT) {
                stage_block(snapshot, STAGING_CALLER, block);
                return;
            }
            snapshot->stats.buffer_waits_count += !waited;
            waited = true;
            break;
        case TAKING:
        case COPYING:
            break;
        }
        snapshot->awaited_block = block;
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
        snapshot->awaited_block = NO_BLOCK;
    }
}

void snapshot_before_update(struct snapshot *snapshot, uint32_t group)
{
    const struct layout *layout = snapshot->layout;
    assert(group < layout->groups_count);
    pthread_mutex_lock(&snapshot->mutex);
    for (uint64_t r = layout->range_index[group];
         r < layout->range_index[group + 1] && !is_capture_over(snapshot); r++)
        for (uint64_t b = layout->ranges[r].first; b < layout->ranges[r].end; b++)
            capture_block(snapshot, b);
    bool copies = snapshot->active && !snapshot->status;
    pthread_mutex_unlock(&snapshot->mutex);
    struct err detail = {0};
    int status = copies ? staging_order_updates(&snapshot->staging, &detail) : 0;
    if (status)
        snapshot_fail(snapshot, status, &detail);
}

void snapshot_freeze(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->is_frozen = true;
    pthread_mutex_unlock(&snapshot->mutex);
}

struct snapshot_stats snapshot_stats(struct snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    struct snapshot_stats stats = snapshot->stats;
    pthread_mutex_unlock(&snapshot->mutex);
    return stats;
}

/* Returns the block if it may be written in place, else NULL. The mutex is held. */
static const char *in_place_data(const struct snapshot *snapshot, uint64_t block)
{
    return snapshot->is_frozen
               ? staging_direct_data(&snapshot->staging, block, snapshot->in_place_align)
               : NULL;
}

/* Takes a pending block with a free buffer. The mutex is held except during the copy. */
static void take_pending_block(struct snapshot *snapshot, uint64_t block, unsigned *ret_buffer)
{
    unsigned buffer = snapshot->free_list[--snapshot->free_count];
    struct err detail = {0};
    int status = 0;
    snapshot->bytes[buffer] = in_place_data(snapshot, block);
    if (!snapshot->bytes[buffer]) {
        snapshot->bytes[buffer] = staging_buffer(&snapshot->staging, buffer);
        snapshot->state[block] = TAKING;
        pthread_mutex_unlock(&snapshot->mutex);
        status = staging_copy(&snapshot->staging, STAGING_WRITER, block, buffer, &detail);
        pthread_mutex_lock(&snapshot->mutex);
    }
    snapshot->state[block] = TAKEN;
    snapshot->uncaptured_count--;
    if (status)
        fail_locked(snapshot, status, &detail);
    pthread_cond_broadcast(&snapshot->changed);
    *ret_buffer = buffer;
}

/* Returns the block that the caller waits for, else the first in the order of updates. NO_BLOCK:
 * none. The mutex is held. */
static uint64_t find_pending(struct snapshot *snapshot)
{
    const struct layout *layout = snapshot->layout;
    if (snapshot->awaited_block != NO_BLOCK && snapshot->state[snapshot->awaited_block] == PENDING)
        return snapshot->awaited_block;
    while (snapshot->next_pending < layout->blocks_count &&
           snapshot->state[layout->update_order[snapshot->next_pending]] != PENDING)
        snapshot->next_pending++;
    return snapshot->next_pending < layout->blocks_count
               ? layout->update_order[snapshot->next_pending]
               : NO_BLOCK;
}

enum snapshot_next snapshot_take(struct snapshot *snapshot, unsigned *ret_buffer,
                                 uint64_t *ret_block)
{
    enum snapshot_next next = SNAPSHOT_AGAIN;
    uint64_t pending;
    pthread_mutex_lock(&snapshot->mutex);
    if (snapshot->untaken_count == 0) {
        next = SNAPSHOT_DONE;
    } else if (snapshot->staged_count > 0) {
        unsigned buffer = snapshot->staged[snapshot->staged_first];
        snapshot->staged_first = (snapshot->staged_first + 1) % snapshot->buffers_count;
        snapshot->staged_count--;
        snapshot->state[snapshot->buffer_block[buffer]] = TAKEN;
        snapshot->bytes[buffer] = staging_buffer(&snapshot->staging, buffer);
        *ret_buffer = buffer;
        *ret_block = snapshot->buffer_block[buffer];
        next = SNAPSHOT_TAKEN;
    } else if (snapshot->free_count > 0 && (pending = find_pending(snapshot)) != NO_BLOCK) {
        *ret_block = pending;
        take_pending_block(snapshot, pending, ret_buffer);
        next = SNAPSHOT_TAKEN;
    }
    if (next == SNAPSHOT_TAKEN)
        snapshot->untaken_count--;
    pthread_mutex_unlock(&snapshot->mutex);
    if (next == SNAPSHOT_TAKEN) {
        await_bytes(snapshot, *ret_buffer);
        staging_add_received(&snapshot->staging, *ret_block, *ret_buffer);
    }
    return next;
}

bool snapshot_stage_ahead(struct snapshot *snapshot)
{
    bool staged = false;
    pthread_mutex_lock(&snapshot->mutex);
    uint64_t pending =
        is_capture_over(snapshot) || snapshot->free_count == 0 ? NO_BLOCK : find_pending(snapshot);
    if (pending != NO_BLOCK && !in_place_data(snapshot, pending)) {
        stage_block(snapshot, STAGING_WRITER, pending);
        staged = true;
    }
    pthread_mutex_unlock(&snapshot->mutex);
    return staged;
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
    snapshot->active = false; /* the caller begins no more copies; one may be in progress */
    pthread_cond_broadcast(&snapshot->changed);
    while (snapshot->copying_count > 0)
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
    pthread_mutex_unlock(&snapshot->mutex);
    staging_drain(&snapshot->staging);
}
