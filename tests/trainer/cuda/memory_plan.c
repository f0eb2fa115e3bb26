/*
 * memory_plan — tests that a device with too little memory is reported before any allocation, with
 * suggestions.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/support/test.h"

#include "trainer/plan/memory_plan.h"

#include <errno.h>
#include <string.h>

enum { MICRO_BATCHES = 2 };

/* micro_batches: per step; 0: an evaluation. epoch: where the run resumes. extra_setting: may be
 * NULL. */
struct planned_run {
    uint64_t micro_batches, epoch;
    const char *extra_setting;
};

/* Runs the check on a device with device_bytes of memory. */
static int check_memory(size_t device_bytes, const struct planned_run *job, struct err *err)
{
    static const struct loader_shape shape = {.samples = 1000, .steps = 10, .vocabulary = 257};
    char global[32];
    const char *sets[] = {"device=cuda",
                          "data.train=x",
                          "run.steps=100",
                          "model.type=gpt2",
                          "model.layers=8",
                          "model.heads=4",
                          "model.width=128",
                          "batch.micro=16",
                          "precision.compute=bf16",
                          "data.text.block=64",
                          "model.vocabulary=257",
                          global,
                          job->extra_setting ? job->extra_setting : "run.seed=0"};
    struct train_config config;
    struct device *device;
    snprintf(global, sizeof global, "batch.global=%llu",
             (unsigned long long)(job->micro_batches ? 16 * job->micro_batches : 16));
    assert_ok(config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &config, err), err);
    const struct trainer_dry_run_options run = {.config = &config,
                                                .backend = ops_null_cuda(),
                                                .ranks = 1,
                                                .local_ranks = 1,
                                                .shape = &shape,
                                                .epoch = job->epoch,
                                                .is_evaluation = job->micro_batches == 0};
    shim_set_memory(device_bytes);
    assert_ok(device_open("cuda", &device, err), err);
    int status = memory_plan_check(&run, device, err);
    device_close(device);
    shim_set_memory((size_t)4 << 30);
    return status;
}

static const struct planned_run plain_job = {.micro_batches = MICRO_BATCHES},
                                evaluation_job = {.micro_batches = 0},
                                offloaded_job = {.micro_batches = MICRO_BATCHES,
                                                 .extra_setting =
                                                     "parallel.offload.optimizer=true"};

static void lack_of_memory_is_reported_with_advice(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check_memory((size_t)100 << 20, &plain_job, &err), -ENOMEM);
    assert_non_null(strstr(err.what, "memory is too small"));
    assert_non_null(strstr(err.expected, "activations of a micro-batch"));
    assert_non_null(strstr(err.found, "free"));
    assert_non_null(strstr(err.advice, "batch.micro: 8 saves"));
    assert_non_null(strstr(err.advice, "model.recompute: 1 saves"));
    assert_non_null(strstr(err.advice, "model.offload: 1 saves"));
    assert_non_null(strstr(err.advice, "parallel.offload.optimizer: true saves"));
    assert_non_null(strstr(err.advice, "batch.global equal to batch.micro saves"));
}

static void offloaded_state_is_reported_and_not_advised_again(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check_memory((size_t)80 << 20, &offloaded_job, &err), -ENOMEM);
    assert_non_null(strstr(err.expected, "moments 0 B"));
    assert_non_null(strstr(err.expected, "pinned on the host"));
    assert_null(strstr(err.advice, "parallel.offload"));
}

/* The device has just enough memory for the batch before it grows. */
static void memory_for_later_larger_batches_is_checked_at_the_start(void **state)
{
    (void)state;
    const struct planned_run growing_job = {.micro_batches = MICRO_BATCHES,
                                            .extra_setting = "batch.schedule=1:8, 2:1"},
                             late_growth_job = {.micro_batches = MICRO_BATCHES,
                                                .extra_setting = "batch.schedule=9:8"},
                             grown_job = {.micro_batches = MICRO_BATCHES,
                                          .epoch = 2,
                                          .extra_setting = "batch.schedule=1:8, 2:1"};
    struct err err = {0};
    size_t enough = (size_t)100 << 20;
    order_set(0);
    while (check_memory(enough, &plain_job, NULL))
        enough += (size_t)1 << 20;
    assert_int_equal(check_memory(enough, &growing_job, &err), -ENOMEM);
    assert_non_null(strstr(err.advice, "no batch.schedule saves"));
    assert_ok(check_memory(enough, &late_growth_job, &err),
              &err); /* the run ends before the batch grows */
    assert_ok(check_memory(enough, &grown_job, &err), &err); /* the batch has already grown */
}

static void an_evaluation_needs_neither_gradients_nor_moments(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_int_equal(check_memory((size_t)100 << 20, &evaluation_job, &err), -ENOMEM);
    assert_non_null(strstr(err.advice, "batch.micro: 8 saves"));
    assert_null(strstr(err.advice, "recompute"));
    assert_null(strstr(err.advice, "batch.global"));
}

static void enough_memory_is_no_error(void **state)
{
    (void)state;
    struct err err = {0};
    order_set(0);
    assert_ok(check_memory((size_t)1 << 30, &plain_job, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lack_of_memory_is_reported_with_advice),
        cmocka_unit_test(offloaded_state_is_reported_and_not_advised_again),
        cmocka_unit_test(memory_for_later_larger_batches_is_checked_at_the_start),
        cmocka_unit_test(an_evaluation_needs_neither_gradients_nor_moments),
        cmocka_unit_test(enough_memory_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
