/*
 * stats — counts the work done and the time that stages spend waiting for each other.
 *
 * While loader_next blocks, time until the batch's last bytes arrive counts as reading and the
 * rest as decoding. The loader counts as waiting for the consumer while ahead_max micro-batches,
 * or as many as fit in memory, are decoded and none is taken or released.
 */
#include "loader/state.h"

#include "base/clock.h"

#include <pthread.h>
#include <time.h>

const char *loader_stage_name(enum loader_stage stage)
{
    static const char *const names[LOADER_STAGE_COUNT] = {"read", "decode", "consumer"};
    return names[stage];
}

void stats_update_consumer_stall(struct loader *loader)
{
    bool is_blocked =
        loader->reader.state == READER_NO_SLOT || loader->reader.state == READER_NO_SPACE;
    bool is_full = is_blocked && loader->ready == loader->planned && !loader->consumer.is_waiting;
    if (is_full == (loader->consumer_stall_since_ns != 0))
        return;
    uint64_t now = clock_now_ns();
    if (!is_full)
        loader->stats.stage_ns[LOADER_STAGE_CONSUMER] += now - loader->consumer_stall_since_ns;
    loader->consumer_stall_since_ns = is_full ? now : 0;
}

void stats_add_wait(struct loader *loader, const struct load_slot *slot, uint64_t begin_ns,
                    uint64_t end_ns)
{
    uint64_t read_until = end_ns;
    if (slot && slot->read_done_ns)
        read_until = slot->read_done_ns < begin_ns ? begin_ns : slot->read_done_ns;
    if (read_until > end_ns)
        read_until = end_ns;
    loader->stats.wait_ns += end_ns - begin_ns;
    loader->stats.stage_ns[LOADER_STAGE_READ] += read_until - begin_ns;
    loader->stats.stage_ns[LOADER_STAGE_DECODE] += end_ns - read_until;
}

static uint64_t thread_cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec time;
    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * CLOCK_NS_PER_S + (uint64_t)time.tv_nsec;
}

struct loader_stats loader_stats(const struct loader *loader)
{
    struct loader *mutable_loader =
        (struct loader *)(uintptr_t)loader; /* not const, to lock its mutex */
    pthread_mutex_lock(&mutable_loader->mutex);
    struct loader_stats stats = mutable_loader->stats;
    stats.ahead_count = mutable_loader->planned - mutable_loader->taken;
    if (mutable_loader->consumer_stall_since_ns)
        stats.stage_ns[LOADER_STAGE_CONSUMER] +=
            clock_now_ns() - mutable_loader->consumer_stall_since_ns;
    pthread_mutex_unlock(&mutable_loader->mutex);
    for (uint32_t i = 0; i < mutable_loader->pool.workers_started; i++) {
        stats.jpeg_warnings_count += atomic_load_explicit(
            &mutable_loader->pool.workers[i].jpeg_warnings, memory_order_relaxed);
        stats.decode_cpu_ns += thread_cpu_ns(mutable_loader->pool.workers[i].thread);
    }
    stats.limit = LOADER_STAGE_CONSUMER;
    for (int i = 0; i < LOADER_STAGE_COUNT; i++)
        if (stats.stage_ns[i] > stats.stage_ns[stats.limit])
            stats.limit = (enum loader_stage)i;
    return stats;
}
