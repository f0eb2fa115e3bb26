/*
 * tcp_meet — tests: ranks find each other, whoever else calls; and say what is wrong where they don't. Each rank is a thread.
 */
#include "comm/tcp_meet.h"

#include "base/clock.h"
#include "base/thread.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3 };

struct rank {
    struct tcp_meet_options options;
    pthread_t thread;
    int sockets[RANKS];
    int status;
    struct err err;
};

static struct rank ranks[RANKS];
static uint64_t own_run; /* runs of the same test beside it are strangers */

static void *meet(void *argument)
{
    struct rank *rank = argument;
    rank->status = tcp_meet(&rank->options, rank->sockets, &rank->err);
    return NULL;
}

/* A port behind which some are free now. */
static int some_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    close(listener);
    return ntohs(address.sin_port);
}

/* A connection to the first port of those at which rank 0 may be; -1: nobody is there. */
static int call(int port)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(made, (struct sockaddr *)&address, sizeof address) == 0)
        return made;
    close(made);
    return -1;
}

static void start(int rank, int count, uint64_t token, int port, uint64_t timeout_ns)
{
    memset(&ranks[rank], 0, sizeof ranks[rank]);
    ranks[rank].options = (struct tcp_meet_options){.address = "127.0.0.1",
                                                    .port = port,
                                                    .rank = rank,
                                                    .ranks = count,
                                                    .token = token,
                                                    .timeout_ns = timeout_ns};
    assert_int_equal(thread_start(&ranks[rank].thread, meet, &ranks[rank]), 0);
}

static void end(int rank)
{
    assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
    for (int r = 0; r < ranks[rank].options.ranks && r < RANKS; r++)
        if (ranks[rank].status == 0 && r != rank) {
            assert_true(ranks[rank].sockets[r] >= 0);
            close(ranks[rank].sockets[r]);
        }
}

static void all_are_found_beside_strangers(void **state)
{
    static const char noise[4096] = "GET / HTTP/1.1\r\n\r\n";
    int port = some_port(), silent = -1, loud = -1;
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int i = 1; silent < 0; i = i % TCP_MEET_PORTS + 1) /* says nothing, and stays */
        silent = call(port + i);
    for (int i = 1; loud < 0; i = i % TCP_MEET_PORTS + 1)
        loud = call(port + i);
    assert_true(send(loud, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    start(1, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    start(2, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int r = 0; r < RANKS; r++) {
        end(r);
        assert_ok(ranks[r].status, &ranks[r].err);
    }
    close(silent);
    close(loud);
}

static void who_does_not_come_is_named_with_where_to_come(void **state)
{
    char line[ERR_LINE_BYTES_MAX];
    (void)state;
    for (int r = 0; r < 2; r++) { /* the first waits for the second; the second finds nobody */
        start(r, 2, own_run, some_port(), CLOCK_NS_PER_S / 5);
        end(r);
        assert_int_equal(ranks[r].status, -ETIMEDOUT);
        err_format(&ranks[r].err, line, sizeof line);
        assert_non_null(strstr(line, "did not find all others by 127.0.0.1"));
        assert_non_null(strstr(line, r ? "nothing of rank 0" : "nothing of rank 1"));
        assert_non_null(strstr(line, "MASTER_ADDR"));
    }
}

static bool is_kept_from_others(int port)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_kept = bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1);
    close(listener);
    return is_kept;
}

static void connections_leave_the_port_of_the_first_rank_to_others(void **state)
{
    int port = some_port();
    (void)state;
    for (int r = 0; r < 2; r++)
        start(r, 2, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
        assert_ok(ranks[r].status, &ranks[r].err);
    }
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(ranks[0].sockets[1], (struct sockaddr *)&own, &bytes), 0);
    assert_false(is_kept_from_others(ntohs(((struct sockaddr_in *)&own)->sin_port))); /* as in sockaddr_in6 */
    for (int r = 0; r < 2; r++)
        close(ranks[r].sockets[1 - r]);
}

static void ranks_of_another_run_are_strangers(void **state)
{
    int port = some_port();
    (void)state;
    start(0, 2, own_run, port, CLOCK_NS_PER_S);
    start(1, 2, own_run + 1, port, CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        end(r);
        assert_int_equal(ranks[r].status, -ETIMEDOUT);
    }
}

static void two_numbers_of_ranks_are_told_on_both_sides(void **state)
{
    int port = some_port();
    (void)state;
    start(0, 2, own_run, port, 60 * CLOCK_NS_PER_S);
    start(1, 3, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        end(r);
        assert_int_equal(ranks[r].status, -EINVAL);
        assert_non_null(strstr(ranks[r].err.what, "different numbers of ranks"));
        assert_non_null(strstr(ranks[r].err.advice, "WORLD_SIZE"));
    }
}

static void an_address_that_is_none_is_named(void **state)
{
    (void)state;
    struct rank rank = {
        .options = {
            .address = "no such host", .port = 20000, .rank = 1, .ranks = 2, .timeout_ns = CLOCK_NS_PER_S}};
    meet(&rank);
    assert_int_equal(rank.status, -EINVAL);
    assert_string_equal(rank.err.found, "no such host");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_found_beside_strangers),
        cmocka_unit_test(who_does_not_come_is_named_with_where_to_come),
        cmocka_unit_test(connections_leave_the_port_of_the_first_rank_to_others),
        cmocka_unit_test(ranks_of_another_run_are_strangers),
        cmocka_unit_test(two_numbers_of_ranks_are_told_on_both_sides),
        cmocka_unit_test(an_address_that_is_none_is_named),
    };
    if (getrandom(&own_run, sizeof own_run, 0) != sizeof own_run)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
