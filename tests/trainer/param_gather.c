/*
 * param_gather — tests on two real torchrun ranks that a rank that only polls learns why a run
 * ended, like one that waits.
 */
#include "trainer/parallel/param_gather.h"

#include "comm/ranks/ranks.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct comm *world;

static const char *get_variable(const char *name)
{
    return getenv(name);
}

/* Rank 1 ends the run while rank 0's gather, which it does not join, is in progress. */
static void end_run(void)
{
    static char message;
    struct comm_work work;
    struct err err = {0};
    assert_ok(world->ops->receive(world, &message, 1, 0, 0, NULL, &work, &err), &err);
    assert_ok(comm_wait(world, &work, &err), &err);
    world->ops->abort(world);
}

static void poll_until_run_ends(struct param_gather *gather, float *gradients)
{
    static const char message;
    struct comm_work work;
    struct err err = {0};
    bool has_free_slot = false;
    int status = 0;
    assert_ok(param_gather_begin(gather, 0, PARAM_GATHER_PARTS, gradients, sizeof *gradients, &err),
              &err);
    assert_ok(world->ops->send(world, &message, 1, 1, 0, NULL, &work, &err), &err);
    while (!status)
        status = param_gather_pump(gather, &has_free_slot, &err);
    assert_int_equal(status, -ECONNABORTED);
    assert_string_equal(err.what, "the run was ended: rank 1 aborted it");
}

static void polling_a_gather_reports_why_the_run_ended(void **state)
{
    const struct partition_options cut = {.rank = (uint32_t)world->rank, .ranks = 2, .shards = 1};
    const struct param_spec spec = {.name = "matrix", .rows = 64, .cols = 32};
    struct params params = {0};
    struct partition partition;
    struct param_gather_options options = {.partition = &partition, .purpose = "gradients"};
    struct param_gather *gather;
    struct device *device;
    struct err err = {0};
    uint64_t index;
    (void)state;
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ops_cpu_open(device, DTYPE_F32, 1, &options.ops, &err), &err);
    assert_ok(params_begin_unit(&params, "unit", &err), &err);
    assert_ok(params_add(&params, &spec, &index, &err), &err);
    params_lay_out_trained(&params);
    assert_ok(partition_init(&partition, &cut, &params, &err), &err);
    assert_ok(world->ops->split(world, 0, world->rank, &options.comm, &err), &err);
    options.stream = options.ops->stream;
    assert_ok(param_gather_open(&options, &gather, &err), &err);
    float *gradients = calloc(params.trained_elements, sizeof *gradients);
    assert_non_null(gradients);
    if (world->rank == 1)
        end_run();
    else
        poll_until_run_ends(gather, gradients);
    assert_int_equal(param_gather_is_idle(gather), world->rank == 1);
    comm_retain(gradients);
    param_gather_close(gather);
    comm_close(options.comm);
    partition_deinit(&partition);
    params_deinit(&params);
    ops_close(options.ops);
    device_close(device);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(polling_a_gather_reports_why_the_run_ended),
    };
    struct ranks ranks;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (ranks_detect(get_variable, &ranks, &err) || ranks_open(&ranks, NULL, &world, &err)) {
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    int failed_count = cmocka_run_group_tests(tests, NULL, NULL);
    comm_close(world);
    return failed_count;
}
