/*
 * workers — every tile once, by however many threads.
 */
#include "base/workers.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { TILES_MAX = 5000 };

struct job {
    uint32_t done[TILES_MAX]; /* times, not atomic: a tile has one worker */
    unsigned workers_max;
    unsigned char seen[WORKERS_COUNT_MAX];
};

static void work(void *context, size_t tile, unsigned worker)
{
    struct job *job = context;
    job->done[tile]++;
    if (worker >= job->workers_max)
        abort();
    job->seen[worker] = 1; /* each worker its own byte */
}

static void every_tile_is_done_once(void **state)
{
    (void)state;
    static const unsigned counts[] = {1, 2, 3, 8};
    static const size_t tiles[] = {0, 1, 2, 7, 100, TILES_MAX};
    for (size_t c = 0; c < 4; c++) {
        struct err err = {0};
        struct workers *crew;
        assert_ok(workers_open(counts[c], &crew, &err), &err);
        assert_int_equal(workers_count(crew), counts[c]);
        for (int round = 0; round < 50; round++) {
            static struct job job;
            memset(&job, 0, sizeof job);
            job.workers_max = counts[c];
            size_t count = tiles[round % 6];
            workers_run(crew, count, work, &job);
            for (size_t tile = 0; tile < TILES_MAX; tile++)
                assert_int_equal(job.done[tile], tile < count);
        }
        workers_close(crew);
    }
}

static void jobs_follow_each_other_at_once(void **state)
{
    (void)state;
    int rounds = test_is_sanitized() ? 2000 : 20000;
    struct err err = {0};
    struct workers *crew;
    assert_ok(workers_open(4, &crew, &err), &err);
    static struct job job;
    memset(&job, 0, sizeof job);
    job.workers_max = 4;
    for (int round = 0; round < rounds; round++)
        workers_run(crew, 5, work, &job);
    for (size_t tile = 0; tile < 5; tile++)
        assert_int_equal(job.done[tile], rounds);
    workers_close(crew);
}

static void a_crew_of_zero_has_one_a_cpu(void **state)
{
    (void)state;
    struct err err = {0};
    struct workers *crew;
    assert_ok(workers_open(0, &crew, &err), &err);
    assert_int_equal(workers_count(crew), workers_cpu_count());
    workers_close(crew);
    workers_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_is_done_once),
        cmocka_unit_test(jobs_follow_each_other_at_once),
        cmocka_unit_test(a_crew_of_zero_has_one_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
