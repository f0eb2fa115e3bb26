/*
 * tcp_meet — tests: ranks find each other, whoever else calls; and say what is wrong where they don't. Each rank is a thread.
 */
#include "comm/tcp_meet.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/tcp_meeting.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
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
static atomic_int stop;
static uint64_t own_run; /* runs of the same test beside it are strangers */

static void *meet(void *argument)
{
    struct rank *rank = argument;
    rank->status = tcp_meet(&rank->options, rank->sockets, &rank->err);
    return NULL;
}

/* Ranks listen behind it; those that the system gives to others are elsewhere. */
static int some_port(void)
{
    uint16_t random;
    assert_int_equal(getrandom(&random, sizeof random, 0), sizeof random);
    return 10000 + random % 20000;
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

static void start_at(int rank, int count, uint64_t token, const char *address, int port, uint64_t timeout_ns)
{
    memset(&ranks[rank], 0, sizeof ranks[rank]);
    ranks[rank].options = (struct tcp_meet_options){.address = address,
                                                    .port = port,
                                                    .rank = rank,
                                                    .ranks = count,
                                                    .token = token,
                                                    .timeout_ns = timeout_ns,
                                                    .stop = &stop};
    assert_int_equal(thread_start(&ranks[rank].thread, meet, &ranks[rank]), 0);
}

static void start(int rank, int count, uint64_t token, int port, uint64_t timeout_ns)
{
    start_at(rank, count, token, "127.0.0.1", port, timeout_ns);
}

static void end(int rank)
{
    assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
}

/* All have found each other. Nobody leaves before. */
static void check_met(int count)
{
    for (int r = 0; r < count; r++)
        end(r);
    for (int r = 0; r < count; r++)
        assert_ok(ranks[r].status, &ranks[r].err);
}

static void close_all(int count)
{
    for (int r = 0; r < count; r++)
        for (int other = 0; other < count; other++)
            if (other != r)
                assert_int_equal(close(ranks[r].sockets[other]), 0);
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
    check_met(RANKS);
    close_all(RANKS);
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
    check_met(2);
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(ranks[0].sockets[1], (struct sockaddr *)&own, &bytes), 0);
    assert_false(is_kept_from_others(ntohs(((struct sockaddr_in *)&own)->sin_port))); /* as in sockaddr_in6 */
    close_all(2);
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

/* One of this machine's addresses that others could call it by; false where it has none. */
static bool find_address(char text[INET_ADDRSTRLEN])
{
    struct ifaddrs *all;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || one->ifa_flags & IFF_LOOPBACK)
            continue;
        const struct sockaddr_in *address = (const struct sockaddr_in *)one->ifa_addr;
        found = inet_ntop(AF_INET, &address->sin_addr, text, INET_ADDRSTRLEN);
    }
    freeifaddrs(all);
    return found;
}

static void who_is_beside_the_first_rank_is_found_from_elsewhere(void **state)
{
    char elsewhere[INET_ADDRSTRLEN], called[INET_ADDRSTRLEN];
    int port = some_port();
    (void)state;
    if (!find_address(elsewhere))
        skip();
    for (int r = 0; r < RANKS; r++) /* the last one comes by the network */
        start_at(r, RANKS, own_run, r == 2 ? elsewhere : "127.0.0.1", port, 60 * CLOCK_NS_PER_S);
    check_met(RANKS);
    struct sockaddr_storage other = {0};
    socklen_t bytes = sizeof other;
    assert_int_equal(getpeername(ranks[2].sockets[1], (struct sockaddr *)&other, &bytes), 0);
    assert_int_equal(other.ss_family, AF_INET);
    assert_non_null(inet_ntop(AF_INET, &((struct sockaddr_in *)&other)->sin_addr, called, sizeof called));
    assert_string_equal(called, elsewhere);
    close_all(RANKS);
}

static void a_meeting_is_given_up_on_request(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++) { /* the first waits for the second; the second finds nobody */
        atomic_store(&stop, 0);
        start(r, 2, own_run, some_port(), 3600 * CLOCK_NS_PER_S);
        atomic_store(&stop, 15);
        end(r);
        assert_int_equal(ranks[r].status, -EINTR);
    }
    atomic_store(&stop, 0);
}

static void a_rank_that_fails_meanwhile_ends_the_meeting(void **state)
{
    int port = some_port();
    (void)state;
    const struct tcp_hello hello = {
        .magic = TCP_HELLO_MAGIC, .token = own_run, .rank = 2, .ranks = RANKS, .listens_at = 1};
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    start(1, RANKS, own_run, port, 3600 * CLOCK_NS_PER_S);
    int last = -1;
    for (int i = 1; last < 0; i = i % TCP_MEET_PORTS + 1) /* a rank that comes to the first one, */
        last = call(port + i);
    assert_int_equal(send(last, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    end(0);
    assert_ok(ranks[0].status, &ranks[0].err);
    for (int r = 1; r < RANKS; r++) /* which has all now, and fails; the last never calls the second */
        close(ranks[0].sockets[r]);
    end(1);
    assert_int_equal(ranks[1].status, -ECONNABORTED);
    assert_non_null(strstr(ranks[1].err.what, "rank 0 left before all had come"));
    close(last);
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
        cmocka_unit_test(who_is_beside_the_first_rank_is_found_from_elsewhere),
        cmocka_unit_test(a_meeting_is_given_up_on_request),
        cmocka_unit_test(a_rank_that_fails_meanwhile_ends_the_meeting),
    };
    if (getrandom(&own_run, sizeof own_run, 0) != sizeof own_run)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
