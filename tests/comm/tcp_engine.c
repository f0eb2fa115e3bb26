/*
 * tcp_engine — tests: what another rank may send, and when; the test is that rank, at the other end of the connection.
 */
#include "comm/tcp_engine.h"

#include "base/clock.h"
#include "comm/tcp_thread.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 7 };

struct other {
    struct tcp_engine *engine; /* of rank 0 of 2 */
    int socket;                /* of rank 1 */
};

static int open_other(void **state)
{
    static struct other other;
    struct err err = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    other.socket = pair[1];
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    assert_ok(tcp_engine_open((int[]){-1, pair[0]}, 0, 2, &other.engine, &err), &err);
    *state = &other;
    return 0;
}

static int close_other(void **state)
{
    struct other *other = *state;
    close(other->socket);
    tcp_engine_close(other->engine);
    return 0;
}

static void say(const struct other *other, enum tcp_word word)
{
    const struct {
        struct tcp_frame frame;
        char text[TCP_WORDS_BYTES];
    } said = {.frame = {TCP_TAG_WORDS + word, TCP_WORDS_BYTES}};
    assert_int_equal(send(other->socket, &said, sizeof said, MSG_NOSIGNAL), sizeof said);
}

/* One message with rank 1; how it ended. */
static int exchange(const struct other *other, bool is_send, char *data, size_t bytes, struct err *err)
{
    static const int world_ranks[] = {0, 1};
    struct tcp_op *op;
    const struct tcp_message message = {.data = data, .frame = {TAG, bytes}, .peer = 1, .is_send = is_send};
    int status = tcp_engine_take(other->engine, &op, err);
    if (status)
        return status;
    op->world_ranks = world_ranks;
    op->ranks = 2;
    strcpy(op->what, "the weights");
    assert_int_equal(tcp_op_plan(op, &message), 0);
    tcp_engine_start(other->engine, op);
    tcp_engine_wait(other->engine, op);
    status = op->status;
    *err = op->detail;
    tcp_engine_give(other->engine, op);
    return status;
}

static void check_ends(const struct other *other, const char *why)
{
    struct err err = {0};
    while (tcp_engine_check(other->engine, &err) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!strstr(err.what, why))
        fail_msg("expected \"%s\" in: %s", why, err.what);
}

static void more_than_can_be_kept_ends_the_run(void **state)
{
    const struct other *other = *state;
    const struct tcp_frame frame = {TAG, TCP_KEPT_BYTES_MAX + 1};
    assert_int_equal(send(other->socket, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    check_ends(other, "rank 0: rank 1 sent too much that nobody wants yet");
}

static void a_frame_that_is_none_ends_the_run(void **state)
{
    const struct other *other = *state;
    const struct tcp_frame frame = {UINT64_MAX, 1};
    assert_int_equal(send(other->socket, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    check_ends(other, "what came from rank 1 is no frame");
}

static void nobody_waits_for_a_rank_that_has_left(void **state)
{
    static char data[8];
    const struct other *other = *state;
    struct err err = {0};
    say(other, TCP_WORD_FAREWELL);
    assert_int_equal(exchange(other, false, data, sizeof data, &err), -ECONNABORTED);
    assert_non_null(strstr(err.what, "rank 1 has left"));
}

static void nobody_sends_to_a_rank_that_has_left(void **state)
{
    static char data[1 << 24]; /* more than is on its way unread */
    const struct other *other = *state;
    struct err err = {0};
    say(other, TCP_WORD_FAREWELL);
    assert_int_equal(exchange(other, true, data, sizeof data, &err), -ECONNABORTED);
    assert_non_null(strstr(err.what, "rank 1 has left"));
}

static void what_a_rank_sent_before_it_left_is_there(void **state)
{
    const struct other *other = *state;
    static char data[8];
    const struct {
        struct tcp_frame frame;
        char data[8];
    } sent = {{TAG, 8}, "letter"};
    struct err err = {0};
    assert_int_equal(send(other->socket, &sent, sizeof sent, MSG_NOSIGNAL), sizeof sent);
    say(other, TCP_WORD_FAREWELL);
    assert_ok(exchange(other, false, data, sizeof data, &err), &err);
    assert_string_equal(data, "letter");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_than_can_be_kept_ends_the_run, open_other, close_other),
        cmocka_unit_test_setup_teardown(a_frame_that_is_none_ends_the_run, open_other, close_other),
        cmocka_unit_test_setup_teardown(nobody_waits_for_a_rank_that_has_left, open_other, close_other),
        cmocka_unit_test_setup_teardown(nobody_sends_to_a_rank_that_has_left, open_other, close_other),
        cmocka_unit_test_setup_teardown(what_a_rank_sent_before_it_left_is_there, open_other, close_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
