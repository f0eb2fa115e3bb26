/*
 * tcp_engine — tests what another rank may send, and when. The test plays that rank at the other
 * end of the connection.
 */
#include "comm/tcp/tcp_engine.h"

#include "comm/engine/engine_comm.h"
#include "comm/tcp/tcp_thread.h"
#include "tests/support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 7 };

struct remote_rank {
    struct engine *engine; /* the engine of rank 0 of 2 */
    int socket;            /* rank 1's */
};

static void connect_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    pair[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[1], (struct sockaddr *)&address, bytes), 0);
    pair[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(pair[0] >= 0);
    close(listener);
}

static int open_remote_rank(void **state)
{
    static struct remote_rank remote;
    struct err err = {0};
    int pair[2];
    connect_pair(pair);
    remote.socket = pair[1];
    assert_ok(tcp_engine_open((int[]){-1, pair[0]}, 0, 2, &remote.engine, &err), &err);
    *state = &remote;
    return 0;
}

static int close_remote_rank(void **state)
{
    struct remote_rank *remote = *state;
    if (remote->socket >= 0)
        close(remote->socket);
    remote->engine->ops->close(remote->engine);
    return 0;
}

struct control_frame {
    struct tcp_frame frame;
    char text[TCP_CONTROL_BYTES];
};

static void send_control(const struct remote_rank *remote, enum tcp_control control,
                         const char *text)
{
    struct control_frame control_frame = {.frame = {TCP_TAG_CONTROL + control, TCP_CONTROL_BYTES}};
    strcpy(control_frame.text, text);
    assert_int_equal(send(remote->socket, &control_frame, sizeof control_frame, MSG_NOSIGNAL),
                     sizeof control_frame);
}

static void receive_control(const struct remote_rank *remote, enum tcp_control control)
{
    struct control_frame control_frame;
    assert_int_equal(recv(remote->socket, &control_frame, sizeof control_frame, MSG_WAITALL),
                     sizeof control_frame);
    assert_int_equal(control_frame.frame.tag, TCP_TAG_CONTROL + control);
}

/* Sends rank 0 a message and then an answer; rank 0 receives both at once. */
static void send_message(const struct remote_rank *remote, const char *answer)
{
    struct {
        struct tcp_frame frame;
        char data[8];
        struct control_frame control_frame;
    } sent = {.frame = {TAG, 8},
              .data = "message",
              .control_frame.frame = {TCP_TAG_CONTROL + TCP_CONTROL_ACTIVITY, TCP_CONTROL_BYTES}};
    size_t bytes = answer ? sizeof sent : sizeof sent - sizeof sent.control_frame;
    if (answer)
        strcpy(sent.control_frame.text, answer);
    assert_int_equal(send(remote->socket, &sent, bytes, MSG_NOSIGNAL), bytes);
}

/* Starts sending a message to rank 1 or receiving one from it. */
static struct engine_op *begin_op(const struct remote_rank *remote, bool is_send, char *data,
                                  size_t bytes, uint64_t deadline_ns,
                                  int (*advance)(struct engine_op *op, struct err *err))
{
    static const int world_ranks[] = {0, 1};
    struct engine_op *op;
    struct err err = {0};
    const struct engine_message message = {
        .data = data, .bytes = bytes, .tag = TAG, .peer = 1, .is_send = is_send};
    if (engine_op_acquire(remote->engine, &op, &err))
        return NULL;
    op->world_ranks = world_ranks;
    op->ranks = 2;
    op->deadline_ns = deadline_ns;
    op->advance = advance;
    strcpy(op->purpose, "the weights");
    assert_int_equal(remote->engine->ops->plan(op, &message), 0);
    engine_start(op);
    return op;
}

/* Returns the result of the operation. */
static int finish_op(const struct remote_rank *remote, struct engine_op *op, struct err *err)
{
    if (!op)
        return engine_check(remote->engine, err);
    engine_wait(op);
    int status = op->status;
    *err = op->detail;
    engine_op_release(op);
    return status;
}

static void assert_run_ends(const struct remote_rank *remote, const char *why)
{
    struct err err = {0};
    while (engine_check(remote->engine, &err) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!strstr(err.what, why))
        fail_msg("expected \"%s\" in: %s", why, err.what);
}

static void too_many_unexpected_messages_end_the_run(void **state)
{
    const struct remote_rank *remote = *state;
    const struct tcp_frame frame = {TAG, TCP_UNEXPECTED_BYTES_MAX + 1};
    assert_int_equal(send(remote->socket, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    assert_run_ends(remote, "rank 0: rank 1 sent too much data that is not expected yet");
}

static void an_invalid_frame_ends_the_run(void **state)
{
    const struct remote_rank *remote = *state;
    const struct tcp_frame frame = {UINT64_MAX, 1};
    assert_int_equal(send(remote->socket, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    assert_run_ends(remote, "rank 1 sent an invalid frame");
}

static void waiting_for_a_rank_that_left_fails(void **state)
{
    static char data[8];
    const struct remote_rank *remote = *state;
    struct err err = {0};
    send_control(remote, TCP_CONTROL_GOODBYE, "");
    assert_int_equal(finish_op(remote, begin_op(remote, false, data, sizeof data, 0, NULL), &err),
                     -ECONNABORTED);
    assert_non_null(strstr(err.what, "rank 1 has left"));
}

static void sending_to_a_rank_that_left_fails(void **state)
{
    static char data[1 << 24]; /* more than fits in the socket buffers */
    const struct remote_rank *remote = *state;
    struct err err = {0};
    send_control(remote, TCP_CONTROL_GOODBYE, "");
    assert_int_equal(finish_op(remote, begin_op(remote, true, data, sizeof data, 0, NULL), &err),
                     -ECONNABORTED);
    assert_non_null(strstr(err.what, "rank 1 has left"));
}

static void messages_sent_before_leaving_are_delivered(void **state)
{
    const struct remote_rank *remote = *state;
    static char data[8];
    struct err err = {0};
    send_message(remote, NULL);
    send_control(remote, TCP_CONTROL_GOODBYE, "");
    assert_ok(finish_op(remote, begin_op(remote, false, data, sizeof data, 0, NULL), &err), &err);
    assert_string_equal(data, "message");
}

static void each_query_needs_its_own_answer(void **state)
{
    const struct remote_rank *remote = *state;
    static char data[8];
    struct err err = {0};
    struct engine_op *op = begin_op(remote, false, data, sizeof data, 1, NULL);
    receive_control(remote, TCP_CONTROL_ACTIVITY_QUERY);
    send_message(remote, "the first answer"); /* the message arrives late but is delivered */
    assert_ok(finish_op(remote, op, &err), &err);
    op = begin_op(remote, false, data, sizeof data, 1, NULL);
    receive_control(remote, TCP_CONTROL_ACTIVITY_QUERY);
    send_control(remote, TCP_CONTROL_ACTIVITY, "-the second answer");
    assert_int_equal(finish_op(remote, op, &err), -ETIMEDOUT);
    assert_string_equal(err.found, "nothing from rank 1; rank 1: the second answer");
}

static atomic_bool is_held, may_continue;

static int hold_thread(struct engine_op *op, struct err *err)
{
    (void)op, (void)err;
    atomic_store(&is_held, true);
    while (!atomic_load(&may_continue))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}

static void the_reason_of_an_abort_arrives_even_if_sending_fails_first(void **state)
{
    static char message[8], data[1 << 24];
    struct remote_rank *remote = *state;
    struct err err = {0};
    struct engine_op *held = begin_op(remote, false, message, sizeof message, 0, hold_thread);
    send_message(remote, NULL);
    while (!atomic_load(&is_held))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    /* the engine sends before it checks for input */
    struct engine_op *op = begin_op(remote, true, data, sizeof data, 0, NULL);
    send_control(remote, TCP_CONTROL_END, "rank 1 has no data");
    assert_int_equal(close(remote->socket), 0);
    remote->socket = -1;
    atomic_store(&may_continue, true);
    assert_ok(finish_op(remote, held, &err), &err);
    assert_int_equal(finish_op(remote, op, &err), -ECONNABORTED);
    assert_string_equal(err.what, "the run was ended: rank 1 has no data");
}

/* The test plays rank 1 while a communicator is split. */
static void split_requests_are_validated(void **state)
{
    static const struct comm_ops ops = {ENGINE_COMM_HOOKS, .name = "tcp",
                                        .close = engine_comm_close};
    static const struct {
        int32_t rank;
        uint32_t comm_id;
    } wrong[] = {
        {-1, 0}, {0, 0}, {2, 0}, {INT32_MAX, 0}, {1, TCP_COMM_IDS_COUNT}, {1, UINT32_MAX - 1}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err err = {0};
        void *opened;
        struct comm *comm, *part = NULL;
        open_remote_rank(&opened);
        const struct remote_rank *remote = opened;
        assert_ok(engine_comm_open(remote->engine, &ops, sizeof(struct engine_comm), &comm, &err),
                  &err);
        const struct {
            struct tcp_frame frame;
            int32_t color, key, rank;
            uint32_t comm_id;
        } request = {{ENGINE_TAG_COLLECTIVE, 16}, 0, 1, wrong[i].rank, wrong[i].comm_id};
        assert_int_equal(send(remote->socket, &request, sizeof request, MSG_NOSIGNAL),
                         sizeof request);
        assert_int_equal(comm->ops->split(comm, 0, 0, &part, &err), -EPROTO);
        assert_non_null(strstr(err.what, "rank 1 of the run sent an invalid communicator id"));
        assert_null(part);
        close(remote->socket);
        comm_close(comm);
    }
}

static void an_unknown_tag_ends_the_run(void **state)
{
    const struct remote_rank *remote = *state;
    /* beyond the range of control frame tags */
    const struct tcp_frame frame = {UINT64_MAX, TCP_CONTROL_BYTES};
    assert_int_equal(send(remote->socket, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    assert_run_ends(remote, "rank 1 sent an invalid frame");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(too_many_unexpected_messages_end_the_run, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test_setup_teardown(an_invalid_frame_ends_the_run, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test_setup_teardown(waiting_for_a_rank_that_left_fails, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test_setup_teardown(sending_to_a_rank_that_left_fails, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test_setup_teardown(messages_sent_before_leaving_are_delivered,
                                        open_remote_rank, close_remote_rank),
        cmocka_unit_test_setup_teardown(each_query_needs_its_own_answer, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test_setup_teardown(the_reason_of_an_abort_arrives_even_if_sending_fails_first,
                                        open_remote_rank, close_remote_rank),
        cmocka_unit_test_setup_teardown(an_unknown_tag_ends_the_run, open_remote_rank,
                                        close_remote_rank),
        cmocka_unit_test(split_requests_are_validated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
