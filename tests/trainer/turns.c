/*
 * turns — tests that a run's time measurements survive a change of batch size. The test advances
 * the clock by minutes, to which real time adds only seconds.
 */
#include "base/clock.h"
#include "tests/ckpt/blocked_disk.h"
#include "tests/trainer/text_case.h"
#include "trainer/trainer.h"

#include <stdatomic.h>

enum {
    BATCH_CHANGE_STEP =
        4, /* an epoch has 624 windows: four steps of 128 at first, later two of 256 */
    STEPS = 8,
    SAVES_MAX = 2 * STEPS
};

static const uint64_t minute_ns = 60 * CLOCK_NS_PER_S;
static char folder[TEST_PATH_BYTES_MAX], shards[2 * TEST_PATH_BYTES_MAX];
static struct io *io;
static _Atomic uint64_t ahead_ns;
static uint64_t saves[SAVES_MAX];
static size_t saves_count;

uint64_t __real_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() + ahead_ns;
}

/* Simulated time while the run makes steps: minutes[step] minutes pass after each step. */
struct simulated_time {
    unsigned minutes[STEPS + 1];
    /* block the first save's writes until after this step; 0: do not block */
    uint64_t blocked_until_step;
};

static void record_report(void *context, const struct trainer_report *report)
{
    const struct simulated_time *simulated = context;
    if (report->event == TRAINER_SAVED) {
        assert_true(saves_count < SAVES_MAX);
        saves[saves_count++] = report->step;
    }
    if (report->event != TRAINER_STEP_QUEUED)
        return;
    bool is_blocking =
        simulated->blocked_until_step > 0 && report->step == simulated->blocked_until_step;
    if (is_blocking)
        gate_wait_for_threads(&disk, 1);
    ahead_ns += simulated->minutes[report->step] * minute_ns;
    if (is_blocking)
        gate_open(&disk);
}

static void run(const char *name, const char *every, const char *max_time,
                const struct simulated_time *simulated, struct trainer_result *result)
{
    char train[3 * TEST_PATH_BYTES_MAX], dir[3 * TEST_PATH_BYTES_MAX];
    struct err err;
    snprintf(train, sizeof train, "data.train=%s/dataset.json", shards);
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, name);
    const char *sets[] = {train,
                          dir,
                          every,
                          max_time,
                          "run.steps=8",
                          "model.type=gpt2",
                          "model.layers=1",
                          "model.width=16",
                          "model.heads=1",
                          "data.text.block=32",
                          "batch.global=128",
                          "batch.micro=64",
                          "batch.schedule=1:2",
                          "data.memory=16MiB"};
    struct train_config config;
    assert_ok(config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &config, &err), &err);
    const struct trainer_options options = {.config = &config,
                                            .io = io,
                                            .report = record_report,
                                            .report_context = (void *)(uintptr_t)simulated};
    saves_count = 0;
    assert_ok(trainer_run(&options, result, &err), &err);
}

static int set_up(void **state)
{
    struct err err;
    (void)state;
    test_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    text_case_make(io, folder, shards);
    blocked_disk_install(io, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_close(io);
    test_remove_folder(folder);
    return 0;
}

static void timed_saves_count_across_a_batch_change(void **state)
{
    static const uint64_t expected[] = {BATCH_CHANGE_STEP, 7, STEPS};
    struct trainer_result result;
    (void)state;
    run("saves", "checkpoint.every=15min", "run.max_time=0s",
        &(const struct simulated_time){.minutes = {[2] = 10, [5] = 6, [6] = 10}}, &result);
    assert_int_equal(result.end, TRAINER_DONE);
    assert_int_equal(saves_count, sizeof expected / sizeof expected[0]);
    assert_memory_equal(saves, expected, sizeof expected);
}

/* At minute 45 of 60, there is no longer time for two saves of ten minutes. */
static void save_time_estimates_survive_a_batch_change(void **state)
{
    struct trainer_result result;
    (void)state;
    gate_shut(&disk);
    run("limit", "checkpoint.every=1", "run.max_time=1h",
        &(const struct simulated_time){.minutes = {[2] = 10, [5] = 35}, .blocked_until_step = 2},
        &result);
    assert_int_equal(result.end, TRAINER_OUT_OF_TIME);
    assert_int_equal(result.step, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(timed_saves_count_across_a_batch_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(save_time_estimates_survive_a_batch_change, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
