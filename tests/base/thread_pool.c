/*
 * thread_pool — every task runs exactly once, on any number of threads.
 */
#include "base/os/thread_pool.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 5000 };

struct job {
    uint32_t done[TASKS_MAX]; /* run counts; not atomic, since one worker runs each task */
    unsigned workers_max;
    unsigned char seen[THREAD_POOL_THREADS_MAX];
};

static void count_task(void *context, size_t task, unsigned worker)
{
    struct job *job = context;
    job->done[task]++;
    if (worker >= job->workers_max)
        abort();
    job->seen[worker] = 1; /* one byte per worker */
}

static void every_task_runs_once(void **state)
{
    (void)state;
    static const unsigned counts[] = {1, 2, 3, 8};
    static const size_t tasks[] = {0, 1, 2, 7, 100, TASKS_MAX};
    for (size_t c = 0; c < 4; c++) {
        struct err err = {0};
        struct thread_pool *pool;
        assert_ok(thread_pool_open(counts[c], &pool, &err), &err);
        assert_int_equal(thread_pool_count(pool), counts[c]);
        for (int round = 0; round < 50; round++) {
            static struct job job;
            memset(&job, 0, sizeof job);
            job.workers_max = counts[c];
            size_t count = tasks[round % 6];
            thread_pool_run(pool, count, count_task, &job);
            for (size_t task = 0; task < TASKS_MAX; task++)
                assert_int_equal(job.done[task], task < count);
        }
        thread_pool_close(pool);
    }
}

static void jobs_can_follow_each_other_immediately(void **state)
{
    (void)state;
    int rounds = test_is_sanitized() ? 2000 : 20000;
    struct err err = {0};
    struct thread_pool *pool;
    assert_ok(thread_pool_open(4, &pool, &err), &err);
    static struct job job;
    memset(&job, 0, sizeof job);
    job.workers_max = 4;
    for (int round = 0; round < rounds; round++)
        thread_pool_run(pool, 5, count_task, &job);
    for (size_t task = 0; task < 5; task++)
        assert_int_equal(job.done[task], rounds);
    thread_pool_close(pool);
}

static void zero_threads_means_one_per_cpu(void **state)
{
    (void)state;
    struct err err = {0};
    struct thread_pool *pool;
    assert_ok(thread_pool_open(0, &pool, &err), &err);
    assert_int_equal(thread_pool_count(pool), thread_pool_cpu_count());
    thread_pool_close(pool);
    thread_pool_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(jobs_can_follow_each_other_immediately),
        cmocka_unit_test(zero_threads_means_one_per_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
