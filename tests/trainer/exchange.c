/*
 * exchange — tests: pieces that did not come are not handed over.
 */
#include "trainer/exchange.h"

#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>

/* Two ranks, of which the other ends the run while pieces are under way: the first look at work finds nothing, the second that it failed. */
static struct comm_work *under_way;
static int looks_count;

static int begin_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                            const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                            const size_t *receive_bytes, const struct comm_options *options,
                            struct comm_work *work, struct err *err)
{
    (void)send, (void)send_offsets, (void)send_bytes, (void)receive, (void)receive_offsets;
    (void)receive_bytes, (void)err;
    *work = (struct comm_work){.comm = comm, .what = options->what};
    under_way = work;
    return 0;
}

static int look(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (++looks_count > 1) {
        work->status = err_set(err, -ECONNABORTED, "the run was ended: rank 1 gave it up");
        work->done = true;
    }
    *ret_done = work->done;
    return 0;
}

static int receive_none(void *context, const struct exchange_chunk *chunk, struct err *err)
{
    (void)context, (void)chunk, (void)err;
    fail_msg("pieces that never came were handed over");
    return 0;
}

static void work_that_fails_while_nobody_waits_is_told_and_not_handed_over(void **state)
{
    static const struct comm_ops ending = {.name = "ending", .all_to_all = begin_all_to_all, .test = look};
    static const uint32_t counts[] = {1, 1};
    const struct partition_options options = {.rank = 0, .ranks = 2, .shards = 1};
    const struct param_spec spec = {.name = "matrix", .rows = 64, .cols = 32};
    struct comm comm = {.ops = &ending, .rank = 0, .ranks = 2};
    struct params params = {0};
    struct partition partition;
    struct exchange *exchange;
    struct device *device;
    struct ops *ops;
    struct err err = {0};
    uint64_t index;
    (void)state;
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(ops_cpu_open(device, DTYPE_F32, 1, &ops, &err), &err);
    assert_ok(params_begin_unit(&params, "unit", &err), &err);
    assert_ok(params_add(&params, &spec, &index, &err), &err);
    assert_ok(partition_init(&partition, &options, &params, &err), &err);
    float *gradients = calloc(params.elements, sizeof *gradients);
    const struct exchange_pieces pieces = {.sources = {gradients}, .counts = counts};
    const struct exchange_options wanted = {.comm = &comm,
                                            .ops = ops,
                                            .partition = &partition,
                                            .chunk_elements = params.elements,
                                            .pieces_max = 1,
                                            .pieces_total_max = 2,
                                            .received = receive_none};
    assert_ok(exchange_open(&wanted, &exchange, &err), &err);
    assert_ok(exchange_begin(exchange, 0, &pieces, &err), &err);
    assert_non_null(under_way);
    int status = 0;
    for (int i = 0; i < 3 && !status; i++)
        status = exchange_pump(exchange, &err);
    assert_int_equal(status, -ECONNABORTED);
    assert_string_equal(err.what, "the run was ended: rank 1 gave it up");
    assert_false(exchange_is_idle(exchange));
    exchange_close(exchange);
    free(gradients);
    partition_deinit(&partition);
    params_deinit(&params);
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_fails_while_nobody_waits_is_told_and_not_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
