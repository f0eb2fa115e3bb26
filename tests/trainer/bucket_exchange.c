/*
 * bucket_exchange — tests that pieces that were not received are not delivered.
 */
#include "trainer/parallel/reduction/bucket_exchange.h"

#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>

/* The other of two ranks ends the run while pieces are in progress: the first test of the work
 * finds it pending, the second finds that it failed. */
static struct comm_work *in_flight;
static int tests_count;

static int begin_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                            const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                            const size_t *receive_bytes, const struct comm_options *options,
                            struct comm_work *work, struct err *err)
{
    (void)send, (void)send_offsets, (void)send_bytes, (void)receive, (void)receive_offsets;
    (void)receive_bytes, (void)err;
    *work = (struct comm_work){.comm = comm, .purpose = options->purpose};
    in_flight = work;
    return 0;
}

static int test_work(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (++tests_count > 1) {
        work->status = err_set(err, -ECONNABORTED, "the run was ended: rank 1 aborted it");
        work->done = true;
    }
    *ret_done = work->done;
    return work->status;
}

static int fail_on_receive(void *context, const struct bucket_exchange_chunk *chunk,
                           struct err *err)
{
    (void)context, (void)chunk, (void)err;
    fail_msg("pieces that were never received were delivered");
    return 0;
}

static int refuse_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                             const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                             const size_t *receive_bytes, const struct comm_options *options,
                             struct comm_work *work, struct err *err)
{
    (void)comm, (void)send, (void)send_offsets, (void)send_bytes, (void)receive,
        (void)receive_offsets;
    (void)receive_bytes, (void)options, (void)work;
    return err_set(err, -EIO, "the network is down");
}

/* An exchange of one matrix between two ranks, over a communicator with the operations above. */
struct fixture {
    struct comm comm;
    struct device *device;
    struct ops *ops;
    struct params params;
    struct partition partition;
    float *gradients;
    struct bucket_exchange *exchange;
};

static const uint32_t counts[] = {1, 1};

static void open_fixture(struct fixture *f, const struct comm_ops *comm_ops)
{
    const struct partition_options options = {.rank = 0, .ranks = 2, .shards = 1};
    const struct param_spec spec = {.name = "matrix", .rows = 64, .cols = 32};
    struct err err = {0};
    uint64_t index;
    *f = (struct fixture){.comm = {.ops = comm_ops, .rank = 0, .ranks = 2}};
    assert_ok(device_open("cpu", &f->device, &err), &err);
    assert_ok(ops_cpu_open(f->device, DTYPE_F32, 1, &f->ops, &err), &err);
    assert_ok(params_begin_unit(&f->params, "unit", &err), &err);
    assert_ok(params_add(&f->params, &spec, &index, &err), &err);
    assert_ok(partition_init(&f->partition, &options, &f->params, &err), &err);
    f->gradients = calloc(f->params.elements, sizeof *f->gradients);
    const struct bucket_exchange_options wanted = {.comm = &f->comm,
                                                   .ops = f->ops,
                                                   .partition = &f->partition,
                                                   .chunk_elements = f->params.elements,
                                                   .pieces_max = 1,
                                                   .pieces_total_max = 2,
                                                   .on_received = fail_on_receive};
    assert_ok(bucket_exchange_open(&wanted, &f->exchange, &err), &err);
}

static void close_fixture(struct fixture *f)
{
    bucket_exchange_close(f->exchange);
    free(f->gradients);
    partition_deinit(&f->partition);
    params_deinit(&f->params);
    ops_close(f->ops);
    device_close(f->device);
}

static void unawaited_failed_work_is_reported_and_not_delivered(void **state)
{
    static const struct comm_ops ending = {
        .name = "ending", .all_to_all = begin_all_to_all, .test = test_work};
    struct fixture f;
    struct err err = {0};
    int status = 0;
    (void)state;
    open_fixture(&f, &ending);
    const struct bucket_exchange_pieces pieces = {.sources = {f.gradients}, .counts = counts};
    assert_ok(bucket_exchange_begin(f.exchange, 0, &pieces, &err), &err);
    assert_non_null(in_flight);
    for (int i = 0; i < 3 && !status; i++)
        status = bucket_exchange_pump(f.exchange, &err);
    assert_int_equal(status, -ECONNABORTED);
    assert_string_equal(err.what, "the run was ended: rank 1 aborted it");
    assert_false(bucket_exchange_is_idle(f.exchange));
    close_fixture(&f);
}

static void unstarted_work_is_reported_each_time_and_not_delivered(void **state)
{
    static const struct comm_ops refusing = {.name = "refusing", .all_to_all = refuse_all_to_all};
    struct fixture f;
    struct err begun = {0}, pumped = {0}, waited = {0}, drained = {0};
    (void)state;
    open_fixture(&f, &refusing);
    const struct bucket_exchange_pieces pieces = {.sources = {f.gradients}, .counts = counts};
    assert_int_equal(bucket_exchange_begin(f.exchange, 0, &pieces, &begun), -EIO);
    assert_int_equal(bucket_exchange_pump(f.exchange, &pumped), -EIO);
    assert_int_equal(bucket_exchange_wait(f.exchange, f.gradients, &waited), -EIO);
    assert_int_equal(bucket_exchange_drain(f.exchange, &drained), -EIO);
    assert_string_equal(begun.what, "the network is down");
    assert_string_equal(pumped.what, begun.what);
    assert_string_equal(waited.what, begun.what);
    assert_string_equal(drained.what, begun.what);
    assert_false(bucket_exchange_is_idle(f.exchange));
    close_fixture(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(unawaited_failed_work_is_reported_and_not_delivered),
        cmocka_unit_test(unstarted_work_is_reported_each_time_and_not_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
