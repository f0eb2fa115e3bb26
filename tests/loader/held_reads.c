/*
 * held_reads — see held_reads.h.
 */
#include "tests/loader/held_reads.h"

#include "loader/state.h"
#include "tests/support/gate.h"

#include <stdatomic.h>

static const struct io_ops *real_ops;
static struct io_ops held_ops;
static atomic_bool is_held;
static atomic_int held_count;

static int held_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms)
{
    if (!is_held || timeout_ms == IO_FOREVER)
        return real_ops->reap(queue, done, count_max, count_min, timeout_ms);
    atomic_fetch_add(&held_count, 1);
    gate_pause();
    return 0;
}

void held_reads_begin(struct fixture *fixture)
{
    real_ops = fixture->io->ops;
    held_ops = *real_ops;
    held_ops.reap = held_reap;
    fixture->io->ops = &held_ops;
    is_held = false;
    held_count = 0;
}

void held_reads_end(struct fixture *fixture)
{
    fixture->io->ops = real_ops;
}

void held_reads_set(bool hold)
{
    is_held = hold;
}

void held_reads_wait(void)
{
    while (held_count == 0)
        gate_pause();
}

void *held_reads_release_when_consumer_waits(void *argument)
{
    struct loader *loader = argument;
    for (bool waits = false; !waits; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        waits = loader->consumer.is_waiting;
        pthread_mutex_unlock(&loader->mutex);
    }
    held_reads_set(false);
    return NULL;
}
