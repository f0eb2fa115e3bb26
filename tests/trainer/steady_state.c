/*
 * steady_state — tests that after its first steps, a run allocates no memory, neither in the
 * loader's threads nor in a step.
 */
#include "tests/support/allocations.h"
#include "tests/support/test.h"

#include "tests/trainer/text_case.h"
#include "trainer/trainer.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 60, WARMUP_STEPS = 15 };

struct allocation_counts {
    size_t after_warmup, at_end;
};

static void record_allocations(void *context, const struct trainer_report *report)
{
    struct allocation_counts *counts = context;
    if (report->event != TRAINER_PROGRESS)
        return;
    if (report->step == WARMUP_STEPS)
        counts->after_warmup = allocations_own_count();
    if (report->step == STEPS - 1)
        counts->at_end = allocations_own_count();
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    (void)allocations_own_count(); /* skips the test if allocations cannot be counted */
    char folder[TEST_PATH_BYTES_MAX], shards[2 * TEST_PATH_BYTES_MAX];
    struct err err;
    struct io *io;
    test_make_folder(folder);
    assert_ok(io_open(folder, NULL, &io, &err), &err);
    text_case_make(io, folder, shards);

    char train[3 * TEST_PATH_BYTES_MAX], dir[2 * TEST_PATH_BYTES_MAX],
        events[2 * TEST_PATH_BYTES_MAX];
    snprintf(train, sizeof train, "data.train=%s/dataset.json", shards);
    snprintf(dir, sizeof dir, "run.dir=%s/run", folder);
    snprintf(events, sizeof events, "log.tensorboard=%s/events", folder);
    const char *sets[] = {train,
                          dir,
                          events,
                          "run.steps=60",
                          "model.type=gpt2",
                          "model.layers=4",
                          "model.offload=1",
                          "parallel.offload.optimizer=true",
                          "model.width=32",
                          "model.heads=2",
                          "data.text.block=32",
                          "batch.global=8",
                          "batch.micro=4",
                          "log.every=1",
                          "checkpoint.every=0",
                          "data.memory=8MiB"};
    struct train_config config;
    assert_ok(config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &config, &err), &err);
    struct allocation_counts counts = {0};
    struct trainer_options options = {
        .config = &config, .io = io, .report = record_allocations, .report_context = &counts};
    struct trainer_result result;
    assert_ok(trainer_run(&options, &result, &err), &err);
    assert_int_equal(result.step, STEPS);
    assert_true(counts.after_warmup > 0);
    assert_int_equal(counts.at_end - counts.after_warmup, 0);
    io_close(io);
    test_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
