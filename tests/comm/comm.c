/*
 * comm — tests a single rank and, with a mock backend, the functions that comm.c adds to every
 * backend.
 */
#include "comm/comm.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static struct comm *open_self(void)
{
    struct err err = {0};
    struct comm *comm = NULL;
    assert_ok(comm_self_open(&comm, &err), &err);
    assert_int_equal(comm->rank, 0);
    assert_int_equal(comm->ranks, 1);
    return comm;
}

static void a_single_rank_gathers_and_reduces_its_own_data(void **state)
{
    (void)state;
    struct comm *comm = open_self();
    struct comm_options options = {.purpose = "the test"};
    struct comm_work work;
    struct err err = {0};
    const float send[5] = {1, -2, 3.5f, 0x1p-149f, -0.0f};
    float receive[5] = {0}, in_place[5];
    assert_ok(comm->ops->all_gather(comm, send, receive, sizeof send, &options, &work, &err), &err);
    assert_ok(comm_wait(comm, &work, &err), &err);
    assert_memory_equal(send, receive, sizeof send);
    for (int order = COMM_DETERMINISTIC; order <= COMM_FAST; order++) {
        memset(receive, 0, sizeof receive);
        assert_ok(comm->ops->reduce_scatter(comm, send, receive, 5, DTYPE_F32,
                                            (enum comm_reduce_order)order, &options, &work, &err),
                  &err);
        assert_ok(comm_wait(comm, &work, &err), &err);
        assert_memory_equal(send, receive, sizeof send);
    }
    memcpy(in_place, send, sizeof send);
    assert_ok(comm->ops->all_gather(comm, in_place, in_place, sizeof send, NULL, &work, &err),
              &err);
    assert_ok(comm_wait(comm, &work, &err), &err);
    assert_memory_equal(send, in_place, sizeof send);
    int64_t values[2] = {INT64_MIN, 3};
    assert_ok(comm->ops->all_reduce_i64(comm, values, 2, COMM_SUM, &options, &work, &err), &err);
    assert_ok(comm_wait(comm, &work, &err), &err);
    assert_true(values[0] == INT64_MIN && values[1] == 3);
    comm_close(comm);
    comm_close(NULL);
}

static void all_to_all_on_one_rank_copies_its_slice(void **state)
{
    (void)state;
    struct comm *comm = open_self();
    struct comm_work work;
    struct err err = {0};
    char receive[10] = "..........";
    const size_t send_offset = 2, receive_offset = 5, bytes = 3, none = 0;
    assert_ok(comm->ops->all_to_all(comm, "abcdefg", &send_offset, &bytes, receive, &receive_offset,
                                    &bytes, NULL, &work, &err),
              &err);
    assert_ok(comm_wait(comm, &work, &err), &err);
    assert_memory_equal(receive, ".....cde..", 10);
    assert_ok(
        comm->ops->all_to_all(comm, NULL, &none, &none, NULL, &none, &none, NULL, &work, &err),
        &err);
    assert_ok(comm_wait(comm, &work, &err), &err);
    comm_close(comm);
}

static void messages_to_oneself_arrive_by_tag_in_order(void **state)
{
    (void)state;
    struct comm *comm = open_self();
    struct comm_work work;
    struct err err = {0};
    char text[4] = "";
    static const struct {
        const char *text;
        int tag;
    } sent[] = {{"one", 1}, {"two", 2}, {"uno", 1}};
    for (size_t i = 0; i < 3; i++)
        assert_ok(comm->ops->send(comm, sent[i].text, 4, 0, sent[i].tag, NULL, &work, &err), &err);
    static const struct {
        const char *text;
        int tag;
    } expected[] = {{"two", 2}, {"one", 1}, {"uno", 1}};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(comm->ops->receive(comm, text, 4, 0, expected[i].tag, NULL, &work, &err), &err);
        assert_ok(comm_wait(comm, &work, &err), &err);
        assert_string_equal(text, expected[i].text);
    }
    /* would hang */
    assert_true(comm->ops->receive(comm, text, 4, 0, 1, NULL, &work, &err) < 0);
    assert_ok(comm->ops->send(comm, "x", 2, 0, 9, NULL, &work, &err), &err);
    assert_int_equal(comm->ops->receive(comm, text, 4, 0, 9, NULL, &work, &err), -EPROTO);
    comm_close(comm); /* an unread message is not leaked */
}

static void after_an_abort_all_work_ends_aborted(void **state)
{
    (void)state;
    struct comm *comm = open_self();
    struct comm_work work;
    struct err err = {0}, tested = {0};
    bool done = false;
    char receive[4] = "old";
    comm->ops->abort(comm);
    assert_ok(comm->ops->all_gather(comm, "new", receive, 4,
                                    &(struct comm_options){.purpose = "the gathering"}, &work,
                                    &err),
              &err);
    assert_int_equal(comm_wait(comm, &work, &err), -ECONNABORTED);
    assert_non_null(strstr(err.what, "the gathering"));
    assert_string_equal(receive, "old");
    assert_int_equal(comm->ops->test(&work, &done, &tested), -ECONNABORTED);
    assert_true(done);
    assert_string_equal(tested.what, err.what);
    assert_int_equal(comm_barrier(comm, NULL, &err), -ECONNABORTED);
    comm_close(comm);
}

static void split_returns_a_communicator_or_none(void **state)
{
    (void)state;
    struct comm *comm = open_self(), *part = NULL;
    struct err err = {0};
    assert_ok(comm->ops->split(comm, 3, 7, &part, &err), &err);
    assert_int_equal(part->ranks, 1);
    assert_ok(comm_barrier(part, NULL, &err), &err);
    comm_close(part);
    assert_ok(comm->ops->split(comm, -1, 0, &part, &err), &err);
    assert_null(part);
    comm_close(comm);
}

/* A mock backend with two ranks; the test plays the other rank. */
struct mock_comm {
    struct comm comm;
    int64_t other_value; /* the other rank's value in a sum */
};

static int mock_all_reduce(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    (void)op, (void)options, (void)err;
    struct mock_comm *mock = (struct mock_comm *)comm;
    assert_int_equal(count, 1);
    values[0] += mock->other_value;
    *work = (struct comm_work){.comm = comm, .done = true};
    return 0;
}

static const struct comm_ops mock_ops = {.name = "mock", .all_reduce_i64 = mock_all_reduce};

static void ranks_agree_only_if_all_succeeded(void **state)
{
    (void)state;
    struct mock_comm mock = {.comm = {.ops = &mock_ops, .rank = 1, .ranks = 2}};
    struct err err = {0};
    assert_int_equal(comm_agree(&mock.comm, 0, NULL, &err), 0);
    err_set(&err, -ENOSPC, "my own trouble");
    assert_int_equal(comm_agree(&mock.comm, -ENOSPC, NULL, &err), -ENOSPC);
    assert_string_equal(err.what, "my own trouble");
    mock.other_value = 2; /* rank 0 is the lower of the two */
    assert_int_equal(comm_agree(&mock.comm, 0, NULL, &err), -EREMOTEIO);
    assert_string_equal(err.what, "rank 0 failed");
    assert_int_equal(comm_agree(&mock.comm, -EIO, NULL, NULL), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_rank_gathers_and_reduces_its_own_data),
        cmocka_unit_test(all_to_all_on_one_rank_copies_its_slice),
        cmocka_unit_test(messages_to_oneself_arrive_by_tag_in_order),
        cmocka_unit_test(after_an_abort_all_work_ends_aborted),
        cmocka_unit_test(split_returns_a_communicator_or_none),
        cmocka_unit_test(ranks_agree_only_if_all_succeeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
