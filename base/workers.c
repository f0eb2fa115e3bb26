/*
 * workers — see workers.h.
 *
 * A job is announced by a new generation number under the mutex; workers then take tiles from an
 * atomic counter. The caller returns when every worker has left the job, so the job's fields are
 * never read by a straggler of the last one.
 */
#include "base/workers.h"

#include "base/cgroup.h"
#include "base/thread.h"
#include "base/trace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct workers {
    unsigned count;
    unsigned started;      /* threads that run, at most count - 1 */
    pthread_mutex_t mutex; /* guards generation, busy, stop and the job's fields */
    pthread_cond_t announced, finished;
    uint64_t generation;
    unsigned busy; /* workers other than the caller still in the job */
    bool stop;
    size_t tiles;
    void (*work)(void *context, size_t tile, unsigned worker);
    void *context;
    atomic_size_t next_tile;
    struct member {
        struct workers *crew;
        unsigned worker;
        struct trace_track *track; /* guarded by mutex between jobs; NULL: no trace */
        pthread_t thread;
    } members[];
};

/* More threads than the quota feeds would be throttled, all together, until the next period. */
unsigned workers_cpu_count_in(const char *root)
{
    cpu_set_t set;
    struct cgroup_limits limits;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    int count = CPU_COUNT(&set);
    cgroup_read_limits(root, &limits);
    if (limits.cpu_count > 0 && limits.cpu_count < count) {
        int whole = (int)limits.cpu_count;
        count = whole < limits.cpu_count ? whole + 1 : whole;
    }
    return count > 0 ? (unsigned)count : 1;
}

unsigned workers_cpu_count(void)
{
    return workers_cpu_count_in("");
}

static void take_tiles(struct workers *crew, unsigned worker)
{
    for (;;) {
        size_t tile = atomic_fetch_add_explicit(&crew->next_tile, 1, memory_order_relaxed);
        if (tile >= crew->tiles)
            return;
        crew->work(crew->context, tile, worker);
    }
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct workers *crew = member->crew;
    uint64_t seen = 0;
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (crew->generation == seen && !crew->stop)
            pthread_cond_wait(&crew->announced, &crew->mutex);
        if (crew->stop)
            break;
        seen = crew->generation;
        struct trace_track *track = member->track;
        pthread_mutex_unlock(&crew->mutex);
        uint64_t began_ns = trace_begin(track);
        take_tiles(crew, member->worker);
        trace_end(track, "tiles", began_ns);
        pthread_mutex_lock(&crew->mutex);
        if (--crew->busy == 0)
            pthread_cond_signal(&crew->finished);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

static int start_member(struct workers *crew, unsigned worker)
{
    struct member *member = &crew->members[worker];
    *member = (struct member){.crew = crew, .worker = worker};
    return thread_start(&member->thread, member_main, member);
}

int workers_open(unsigned count, struct workers **ret_crew, struct err *err)
{
    if (count == 0)
        count = workers_cpu_count();
    if (count > WORKERS_COUNT_MAX)
        count = WORKERS_COUNT_MAX;
    struct workers *crew = calloc(1, sizeof *crew + count * sizeof crew->members[0]);
    if (!crew)
        return err_set(err, -ENOMEM, "out of memory for %u worker threads", count);
    crew->count = count;
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->announced, NULL);
    pthread_cond_init(&crew->finished, NULL);
    for (unsigned i = 1; i < count; i++) {
        int status = start_member(crew, i);
        if (status) {
            workers_close(crew);
            return err_errno(err, status, "could not start worker thread %u of %u", i, count);
        }
        crew->started = i;
    }
    *ret_crew = crew;
    return 0;
}

void workers_close(struct workers *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->stop = true;
    pthread_cond_broadcast(&crew->announced);
    pthread_mutex_unlock(&crew->mutex);
    for (unsigned i = 1; i <= crew->started; i++)
        pthread_join(crew->members[i].thread, NULL);
    pthread_cond_destroy(&crew->finished);
    pthread_cond_destroy(&crew->announced);
    pthread_mutex_destroy(&crew->mutex);
    free(crew);
}

unsigned workers_count(const struct workers *crew)
{
    return crew->count;
}

void workers_add_tracks(struct workers *crew, struct trace *trace)
{
    pthread_mutex_lock(&crew->mutex);
    for (unsigned i = 1; i <= crew->started; i++)
        crew->members[i].track = trace_add_track(trace, "compute", i);
    pthread_mutex_unlock(&crew->mutex);
}

void workers_run(struct workers *crew, size_t tiles,
                 void (*work)(void *context, size_t tile, unsigned worker), void *context)
{
    if (tiles == 1 || crew->started == 0) {
        for (size_t tile = 0; tile < tiles; tile++)
            work(context, tile, 0);
        return;
    }
    pthread_mutex_lock(&crew->mutex);
    crew->tiles = tiles;
    crew->work = work;
    crew->context = context;
    atomic_store_explicit(&crew->next_tile, 0, memory_order_relaxed);
    crew->busy = crew->started;
    crew->generation++;
    pthread_cond_broadcast(&crew->announced);
    pthread_mutex_unlock(&crew->mutex);
    take_tiles(crew, 0);
    pthread_mutex_lock(&crew->mutex);
    while (crew->busy > 0)
        pthread_cond_wait(&crew->finished, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
}
