/*
 * thread_queue — see thread_queue.h.
 *
 *     submit -> pending list -> a thread runs the request -> done list -> reap
 *
 * One mutex guards both lists. Requests carry their list link, so nothing is allocated after open.
 * Submitting wakes at most one thread per new request, most recently idle first. The reaper wakes
 * once, when enough requests are done. Every condition variable has one waiter: with several, glibc
 * before 2.41 can lose signals (glibc bug 25847).
 */
#include "io/engines/thread_queue.h"

#include "base/clock.h"
#include "base/os/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct request_list {
    struct io_request *first, *last;
};

/* Guarded by the queue's mutex. */
struct engine_thread {
    struct io_queue *queue;
    pthread_t id;
    pthread_cond_t wake;
    bool is_asleep;
    struct engine_thread *next_idle;
};

struct io_queue {
    unsigned depth, threads_max;   /* immutable */
    struct thread_queue_work work; /* immutable */
    pthread_mutex_t mutex;         /* guards all members below */
    pthread_cond_t enough_done;
    struct request_list pending, done;
    unsigned unreaped_count; /* at most depth */
    unsigned pending_count, done_count;
    unsigned wake_count;              /* done requests that wake the reaper; 0: no reaper waits */
    struct engine_thread *idle_first; /* a stack */
    unsigned started_count, idle_count, busy_count; /* threads: all, asleep, running one */
    bool is_closing;
    struct engine_thread threads[];
};

static void list_append(struct request_list *list, struct io_request *request)
{
    request->next = NULL;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

static struct io_request *list_pop(struct request_list *list)
{
    struct io_request *request = list->first;
    list->first = request->next;
    if (!list->first)
        list->last = NULL;
    return request;
}

static bool list_remove(struct request_list *list, struct io_request *request)
{
    struct io_request *before = NULL, *at = list->first;
    while (at && at != request) {
        before = at;
        at = at->next;
    }
    if (!at)
        return false;
    if (before)
        before->next = at->next;
    else
        list->first = at->next;
    if (list->last == at)
        list->last = before;
    return true;
}

static void complete(struct io_queue *queue, struct io_request *request, ssize_t result)
{
    request->result = result;
    list_append(&queue->done, request);
    queue->done_count++;
    if (queue->wake_count > 0 && queue->done_count >= queue->wake_count) {
        queue->wake_count = 0;
        pthread_cond_signal(&queue->enough_done);
    }
}

static void sleep_until_woken(struct engine_thread *thread)
{
    struct io_queue *queue = thread->queue;
    thread->is_asleep = true;
    queue->idle_count++;
    thread->next_idle = queue->idle_first;
    queue->idle_first = thread;
    while (thread->is_asleep)
        pthread_cond_wait(&thread->wake, &queue->mutex);
}

/* Returns false if all threads are busy. Call with the mutex held. */
static bool wake_one(struct io_queue *queue)
{
    struct engine_thread *thread = queue->idle_first;
    if (!thread)
        return false;
    queue->idle_first = thread->next_idle;
    queue->idle_count--;
    thread->is_asleep = false;
    pthread_cond_signal(&thread->wake);
    return true;
}

static void *thread_main(void *argument)
{
    struct engine_thread *thread = argument;
    struct io_queue *queue = thread->queue;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->is_closing) {
        if (!queue->pending.first) {
            sleep_until_woken(thread);
            continue;
        }
        struct io_request *request = list_pop(&queue->pending);
        queue->pending_count--;
        queue->busy_count++;
        pthread_mutex_unlock(&queue->mutex);
        ssize_t result =
            queue->work.run(queue->work.context, (unsigned)(thread - queue->threads), request);
        pthread_mutex_lock(&queue->mutex);
        queue->busy_count--;
        complete(queue, request, result);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

/* Call with the mutex held. */
static int start_thread(struct io_queue *queue)
{
    struct engine_thread *thread = &queue->threads[queue->started_count];
    *thread = (struct engine_thread){.queue = queue};
    pthread_cond_init(&thread->wake, NULL);
    int status = thread_start(&thread->id, thread_main, thread);
    if (status) {
        pthread_cond_destroy(&thread->wake);
        return status;
    }
    queue->started_count++;
    return 0;
}

unsigned thread_queue_threads(const struct io_options *options)
{
    unsigned threads =
        options && options->threads ? options->threads : THREAD_QUEUE_THREADS_DEFAULT;
    return threads < THREAD_QUEUE_THREADS_MAX ? threads : THREAD_QUEUE_THREADS_MAX;
}

int thread_queue_open(unsigned depth, unsigned threads, const struct thread_queue_work *work,
                      struct io_queue **ret_queue, struct err *err)
{
    if (depth < 1 || depth > IO_QUEUE_DEPTH_MAX || threads < 1 ||
        threads > THREAD_QUEUE_THREADS_MAX) {
        err_set(err, -EINVAL, "the size of the I/O queue is out of range: depth %u, %u threads",
                depth, threads);
        err_expected(err, "depth 1 to %d, threads 1 to %d", IO_QUEUE_DEPTH_MAX,
                     THREAD_QUEUE_THREADS_MAX);
        return -EINVAL;
    }
    if (threads > depth)
        threads = depth;
    struct io_queue *queue = calloc(1, sizeof *queue + threads * sizeof queue->threads[0]);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    queue->depth = depth;
    queue->threads_max = threads;
    queue->work = *work;
    pthread_mutex_init(&queue->mutex, NULL);
    thread_cond_init(&queue->enough_done);
    pthread_mutex_lock(&queue->mutex);
    int status = start_thread(queue);
    pthread_mutex_unlock(&queue->mutex);
    if (status) {
        thread_queue_close(queue);
        return err_errno(err, status, "could not start a thread for I/O");
    }
    *ret_queue = queue;
    return 0;
}

void thread_queue_close(struct io_queue *queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->mutex);
    queue->is_closing = true;
    while (queue->pending.first)
        list_pop(&queue->pending)->result = -ECANCELED;
    while (wake_one(queue))
        ;
    unsigned started = queue->started_count;
    pthread_mutex_unlock(&queue->mutex);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(queue->threads[i].id, NULL);
        pthread_cond_destroy(&queue->threads[i].wake);
    }
    pthread_cond_destroy(&queue->enough_done);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* Wakes or starts one thread per pending request, as far as possible. Call with the mutex held. */
static void wake_or_start_threads(struct io_queue *queue)
{
    while (queue->pending_count > queue->started_count - queue->idle_count - queue->busy_count) {
        if (wake_one(queue))
            continue;
        if (queue->started_count == queue->threads_max || start_thread(queue))
            return; /* the running threads handle them */
    }
}

int thread_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    pthread_mutex_lock(&queue->mutex);
    unsigned room = queue->depth - queue->unreaped_count;
    if (count > room)
        count = room;
    for (unsigned i = 0; i < count; i++)
        list_append(&queue->pending, requests[i]);
    queue->unreaped_count += count;
    queue->pending_count += count;
    wake_or_start_threads(queue);
    pthread_mutex_unlock(&queue->mutex);
    return (int)count;
}

/* Sleeps until count_min requests are done, all are done, or the time is up. Call with the mutex
 * held. */
static void wait_until_done(struct io_queue *queue, unsigned count_min, int timeout_ms)
{
    struct timespec deadline = {0};
    if (timeout_ms > 0)
        deadline = clock_timespec(clock_now_ns() + (uint64_t)timeout_ms * 1000000);
    int wait_status = 0;
    while (!wait_status && timeout_ms != 0 && queue->done_count < count_min &&
           queue->done_count < queue->unreaped_count) {
        queue->wake_count = count_min < queue->unreaped_count ? count_min : queue->unreaped_count;
        wait_status = timeout_ms < 0
                          ? pthread_cond_wait(&queue->enough_done, &queue->mutex)
                          : pthread_cond_timedwait(&queue->enough_done, &queue->mutex, &deadline);
    }
    queue->wake_count = 0;
}

int thread_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                      unsigned count_min, int timeout_ms)
{
    pthread_mutex_lock(&queue->mutex);
    wait_until_done(queue, count_min < count_max ? count_min : count_max, timeout_ms);
    unsigned count = queue->done_count < count_max ? queue->done_count : count_max;
    for (unsigned i = 0; i < count; i++)
        done[i] = list_pop(&queue->done);
    queue->done_count -= count;
    queue->unreaped_count -= count;
    pthread_mutex_unlock(&queue->mutex);
    return (int)count;
}

void thread_queue_cancel(struct io_queue *queue, struct io_request *request)
{
    pthread_mutex_lock(&queue->mutex);
    if (list_remove(&queue->pending, request)) {
        queue->pending_count--;
        complete(queue, request, -ECANCELED);
    }
    pthread_mutex_unlock(&queue->mutex);
}
