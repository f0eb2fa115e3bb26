/*
 * altered_reads — see altered_reads.h.
 */
#include "tests/loader/altered_reads.h"

#include "loader/state.h"
#include "tests/support/gate.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LATE_STRIDE = 40 }; /* READS_SOMETIMES_LATER: one in this many polls finds nothing */

/* Bytes of a shard; NO_SHARD: none. */
struct shard_range {
    uint64_t shard, begin, end;
};
static const uint64_t NO_SHARD = UINT64_MAX;

static struct io *altered_io;
static const struct io_ops *real_ops;
static struct io_ops altered_ops;
static enum reads_arrival arrival;
static struct shard_range failing, missing;
static atomic_bool holds;

/* Owned by the reader thread of the open loader. */
static unsigned polls_count, held_count;
static struct io_request *held[LOADER_QUEUE_DEPTH];
static struct seen_read *seen;
static uint64_t seen_count, seen_capacity;

static bool is_of_sample(const struct io_request *request)
{
    return request->flags & IO_PADDED;
}

static void note_read(const struct io_request *request)
{
    const struct load_chunk *chunk = request->user;
    const struct batch *batch = &chunk->first_waiting->slot->batch;
    if (seen_count == seen_capacity) {
        seen_capacity = 2 * seen_capacity + 1024;
        seen = realloc(seen, seen_capacity * sizeof *seen);
        assert_non_null(seen);
    }
    seen[seen_count++] = (struct seen_read){.shard = chunk->shard,
                                            .begin = request->offset,
                                            .end = request->offset + request->bytes,
                                            .epoch = batch->epoch,
                                            .step = batch->step,
                                            .micro = batch->micro,
                                            .is_long = chunk->is_long};
}

static int altered_submit(struct io_queue *queue, struct io_request *const *requests,
                          unsigned count)
{
    int taken = real_ops->submit(queue, requests, count);
    for (int i = 0; i < taken; i++)
        if (is_of_sample(requests[i]))
            note_read(requests[i]);
    return taken;
}

static void alter_result(struct io_request *request)
{
    const struct load_chunk *chunk = request->user;
    uint64_t begin = request->offset, end = begin + request->bytes;
    if (chunk->shard == failing.shard && begin < failing.end && end > failing.begin)
        request->result = -EIO;
    else if (chunk->shard == missing.shard && end > missing.begin)
        request->result = begin < missing.begin ? (ssize_t)(missing.begin - begin) : 0;
}

static bool is_for_first_batch(const struct io_request *request)
{
    const struct load_chunk *chunk = request->user;
    const struct batch *batch = &chunk->first_waiting->slot->batch;
    return batch->step == 0 && batch->micro == 0;
}

/* Holds back completions, or releases them; returns the number of completions. */
static int hold_back(struct io_request **done, int reaped, unsigned count_max)
{
    unsigned count = 0;
    bool is_holding = holds;
    for (int i = 0; i < reaped; i++) {
        if (is_holding && !is_for_first_batch(done[i]))
            held[held_count++] = done[i];
        else
            done[count++] = done[i];
    }
    while (!is_holding && held_count > 0 && count < count_max)
        done[count++] = held[--held_count];
    return (int)count;
}

/* Only the reader of samples waits with a limit. */
static int altered_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                        unsigned count_min, int timeout_ms)
{
    int reaped;
    if (timeout_ms == IO_FOREVER)
        return real_ops->reap(queue, done, count_max, count_min, timeout_ms);
    bool is_poll = timeout_ms == 0;
    bool is_late = arrival == READS_LATER ||
                   (arrival == READS_SOMETIMES_LATER && ++polls_count % LATE_STRIDE == 0);
    if (is_poll && is_late)
        return 0;
    if (held_count > 0) {
        reaped = real_ops->reap(queue, done, count_max, 0, 0);
        gate_pause();
    } else if (is_poll) {
        reaped = real_ops->reap(queue, done, count_max, count_max, IO_FOREVER);
    } else {
        reaped = real_ops->reap(queue, done, count_max, count_min, timeout_ms);
    }
    for (int i = 0; i < reaped; i++)
        alter_result(done[i]);
    return reaped < 0 ? reaped : hold_back(done, reaped, count_max);
}

void altered_reads_begin(struct io *io, enum reads_arrival as)
{
    if (altered_io) /* left by a failed case */
        altered_reads_end();
    altered_io = io;
    real_ops = io->ops;
    altered_ops = *real_ops;
    altered_ops.submit = altered_submit;
    altered_ops.reap = altered_reap;
    io->ops = &altered_ops;
    arrival = as;
    failing.shard = missing.shard = NO_SHARD;
    holds = false;
    polls_count = held_count = 0;
    seen_count = 0;
}

void altered_reads_end(void)
{
    altered_io->ops = real_ops;
    altered_io = NULL;
    free(seen);
    seen = NULL;
    seen_count = seen_capacity = 0;
}

void altered_reads_hold_all_but_first(void)
{
    holds = true;
}

void altered_reads_release(void)
{
    holds = false;
}

void altered_reads_fail(uint64_t shard, uint64_t begin, uint64_t end)
{
    failing = (struct shard_range){shard, begin, end};
}

void altered_reads_cut(uint64_t shard, uint64_t bytes)
{
    missing = (struct shard_range){shard, bytes, UINT64_MAX};
}

uint64_t altered_reads_seen(const struct seen_read **ret_list)
{
    held_count = 0; /* the queue is closed */
    *ret_list = seen;
    return seen_count;
}
