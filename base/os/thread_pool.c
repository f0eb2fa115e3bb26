/*
 * thread_pool — see thread_pool.h.
 *
 * A new generation number, set under the mutex, starts a job; workers then take tasks from an
 * atomic counter. The caller returns once every worker has left the job, so none of them reads the
 * fields of the next job.
 */
#include "base/os/thread_pool.h"

#include "base/os/cgroup.h"
#include "base/os/thread.h"
#include "base/os/trace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct thread_pool {
    unsigned count;
    unsigned started_count; /* running threads, at most count - 1 */
    pthread_mutex_t mutex;  /* guards generation, busy_count, is_stopping and the job's fields */
    pthread_cond_t job_started, finished;
    uint64_t generation;
    unsigned busy_count; /* workers still in the job, except the caller */
    bool is_stopping;
    size_t tasks;
    void (*work)(void *context, size_t task, unsigned worker);
    void *context;
    atomic_size_t next_task;
    struct worker {
        struct thread_pool *pool;
        unsigned number;
        struct trace_track *track; /* guarded by mutex between jobs; NULL: no trace */
        pthread_t thread;
    } workers[];
};

/* If threads exceed the quota, the kernel stops all of them until the next period. */
unsigned thread_pool_cpu_count_in(const char *root)
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

unsigned thread_pool_cpu_count(void)
{
    return thread_pool_cpu_count_in("");
}

static void run_tasks(struct thread_pool *pool, unsigned worker)
{
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
        if (task >= pool->tasks)
            return;
        pool->work(pool->context, task, worker);
    }
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct thread_pool *pool = worker->pool;
    uint64_t seen_generation = 0;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->generation == seen_generation && !pool->is_stopping)
            pthread_cond_wait(&pool->job_started, &pool->mutex);
        if (pool->is_stopping)
            break;
        seen_generation = pool->generation;
        struct trace_track *track = worker->track;
        pthread_mutex_unlock(&pool->mutex);
        uint64_t began_ns = trace_begin(track);
        run_tasks(pool, worker->number);
        trace_end(track, "tasks", began_ns);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy_count == 0)
            pthread_cond_signal(&pool->finished);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static int start_worker(struct thread_pool *pool, unsigned number)
{
    struct worker *worker = &pool->workers[number];
    *worker = (struct worker){.pool = pool, .number = number};
    return thread_start(&worker->thread, worker_main, worker);
}

int thread_pool_open(unsigned count, struct thread_pool **ret_pool, struct err *err)
{
    if (count == 0)
        count = thread_pool_cpu_count();
    if (count > THREAD_POOL_THREADS_MAX)
        count = THREAD_POOL_THREADS_MAX;
    struct thread_pool *pool = calloc(1, sizeof *pool + count * sizeof pool->workers[0]);
    if (!pool)
        return err_set(err, -ENOMEM, "out of memory for %u worker threads", count);
    pool->count = count;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->job_started, NULL);
    pthread_cond_init(&pool->finished, NULL);
    for (unsigned i = 1; i < count; i++) {
        int status = start_worker(pool, i);
        if (status) {
            thread_pool_close(pool);
            return err_errno(err, status, "could not start worker thread %u of %u", i, count);
        }
        pool->started_count = i;
    }
    *ret_pool = pool;
    return 0;
}

void thread_pool_close(struct thread_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->job_started);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 1; i <= pool->started_count; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->job_started);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

unsigned thread_pool_count(const struct thread_pool *pool)
{
    return pool->count;
}

void thread_pool_add_tracks(struct thread_pool *pool, struct trace *trace)
{
    pthread_mutex_lock(&pool->mutex);
    for (unsigned i = 1; i <= pool->started_count; i++)
        pool->workers[i].track = trace_add_track(trace, "compute", i);
    pthread_mutex_unlock(&pool->mutex);
}

void thread_pool_run(struct thread_pool *pool, size_t tasks,
                     void (*work)(void *context, size_t task, unsigned worker), void *context)
{
    if (tasks == 1 || pool->started_count == 0) {
        for (size_t task = 0; task < tasks; task++)
            work(context, task, 0);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->tasks = tasks;
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
    pool->busy_count = pool->started_count;
    pool->generation++;
    pthread_cond_broadcast(&pool->job_started);
    pthread_mutex_unlock(&pool->mutex);
    run_tasks(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy_count > 0)
        pthread_cond_wait(&pool->finished, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}
