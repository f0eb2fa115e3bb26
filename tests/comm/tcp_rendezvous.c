/*
 * tcp_rendezvous — tests that ranks find each other despite unrelated connections, and report why
 * if they don't. Each rank is a thread.
 */
#include "comm/tcp/tcp_rendezvous.h"

#include "base/clock.h"
#include "base/os/thread.h"
#include "comm/tcp/tcp_rendezvous_internal.h"
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
    struct tcp_rendezvous_options options;
    pthread_t thread;
    int sockets[RANKS];
    int status;
    struct err err;
};

static struct rank ranks[RANKS];
static atomic_int stop;
static uint64_t run_token; /* separates concurrent instances of this test */

static bool is_stop_set(const void *context)
{
    (void)context;
    return atomic_load(&stop) != 0;
}

static void *run_rendezvous(void *argument)
{
    struct rank *rank = argument;
    rank->status = tcp_rendezvous(&rank->options, rank->sockets, &rank->err);
    return NULL;
}

/* Ranks listen on the ports that follow; the range avoids ephemeral ports. */
static int pick_port(void)
{
    uint16_t random;
    assert_int_equal(getrandom(&random, sizeof random, 0), sizeof random);
    return 10000 + random % 20000;
}

/* Connects to the port; -1 if nothing listens there. */
static int connect_to_port(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Connects to the first port on which rank 0 listens, retrying until it does. */
static int connect_to_rank0(int port)
{
    int fd = -1;
    for (int i = 1; fd < 0; i = i % TCP_RENDEZVOUS_PORTS + 1)
        fd = connect_to_port(port + i);
    return fd;
}

/* Sends the hello of a rank that connects to another; the test plays that rank. */

static void send_hello(int fd, int rank, uint64_t run_id, struct tcp_hello *ret_hello)
{
    *ret_hello = (struct tcp_hello){.magic = TCP_HELLO_MAGIC,
                                    .token = run_token,
                                    .run_id = run_id,
                                    .rank = rank,
                                    .ranks = RANKS,
                                    .listen_port = 1};
    assert_int_equal(send(fd, ret_hello, sizeof *ret_hello, MSG_NOSIGNAL), sizeof *ret_hello);
}

static void receive(int fd, void *data, size_t bytes)
{
    assert_int_equal(recv(fd, data, bytes, MSG_WAITALL), bytes);
}

/* Exchanges hellos with the other rank, which must have the same secret; returns its hello. */
static struct tcp_hello handshake(int fd, int rank, uint64_t run_id,
                                  const struct tcp_secret *secret)
{
    struct tcp_hello own, hello;
    struct tcp_proof proof, expected;
    send_hello(fd, rank, run_id, &own);
    receive(fd, &hello, sizeof hello);
    assert_int_equal(tcp_secret_prove(secret, TCP_ROLE_INITIATOR, &own, &hello, &proof), 0);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    assert_int_equal(tcp_secret_prove(secret, TCP_ROLE_RESPONDER, &own, &hello, &expected), 0);
    receive(fd, &proof, sizeof proof);
    assert_memory_equal(&proof, &expected, sizeof proof);
    return hello;
}

/* Receives the addresses of all ranks from rank 0, once all have connected; returns the run's
 * number. */
static uint64_t receive_addresses(int fd, struct tcp_address addresses[RANKS])
{
    struct tcp_hello hello;
    receive(fd, &hello, sizeof hello);
    receive(fd, addresses, RANKS * sizeof *addresses);
    return hello.run_id;
}

static int connect_to_address(const struct tcp_address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address->address, sizeof(struct sockaddr_in)), 0);
    return fd;
}

static const struct tcp_secret no_secret;

static void start_rank_with_secret(int rank, int count, uint64_t token, const char *address,
                                   int port, uint64_t timeout_ns, const struct tcp_secret *secret)
{
    memset(&ranks[rank], 0, sizeof ranks[rank]);
    ranks[rank].options = (struct tcp_rendezvous_options){.address = address,
                                                          .port = port,
                                                          .rank = rank,
                                                          .ranks = count,
                                                          .token = token,
                                                          .secret = secret,
                                                          .timeout_ns = timeout_ns,
                                                          .wants_stop = is_stop_set};
    assert_int_equal(thread_start(&ranks[rank].thread, run_rendezvous, &ranks[rank]), 0);
}

static void start_rank_at(int rank, int count, uint64_t token, const char *address, int port,
                          uint64_t timeout_ns)
{
    start_rank_with_secret(rank, count, token, address, port, timeout_ns, NULL);
}

static void start_rank(int rank, int count, uint64_t token, int port, uint64_t timeout_ns)
{
    start_rank_at(rank, count, token, "127.0.0.1", port, timeout_ns);
}

static void join_rank(int rank)
{
    assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
}

/* Checks that all ranks have found each other, before any of them leaves. */
static void assert_all_connected(int count)
{
    for (int r = 0; r < count; r++)
        join_rank(r);
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

static void ranks_find_each_other_despite_stray_connections(void **state)
{
    static const char noise[4096] = "GET / HTTP/1.1\r\n\r\n";
    int port = pick_port();
    (void)state;
    start_rank(0, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    int silent = connect_to_rank0(port); /* sends nothing and stays connected */
    int loud = connect_to_rank0(port);
    assert_true(send(loud, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    start_rank(1, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    start_rank(2, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    assert_all_connected(RANKS);
    close_all(RANKS);
    close(silent);
    close(loud);
}

static void missing_ranks_are_named_with_the_address_expected(void **state)
{
    char line[ERR_LINE_BYTES_MAX];
    (void)state;
    /* the first rank waits for the second; the second finds no one */
    for (int r = 0; r < 2; r++) {
        start_rank(r, 2, run_token, pick_port(), CLOCK_NS_PER_S / 5);
        join_rank(r);
        assert_int_equal(ranks[r].status, -ETIMEDOUT);
        err_format(&ranks[r].err, line, sizeof line);
        assert_non_null(strstr(line, "did not find all the others through 127.0.0.1"));
        assert_non_null(strstr(line, r ? "nothing from rank 0" : "nothing from rank 1"));
        assert_non_null(strstr(line, "MASTER_ADDR"));
    }
}

static bool is_port_in_use(int port)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_in_use =
        bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1);
    close(listener);
    return is_in_use;
}

static void connections_do_not_occupy_the_first_ranks_port(void **state)
{
    int port = pick_port();
    (void)state;
    for (int r = 0; r < 2; r++)
        start_rank(r, 2, run_token, port, 60 * CLOCK_NS_PER_S);
    assert_all_connected(2);
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(ranks[0].sockets[1], (struct sockaddr *)&own, &bytes), 0);
    /* sin6_port has the same offset */
    assert_false(is_port_in_use(ntohs(((struct sockaddr_in *)&own)->sin_port)));
    close_all(2);
}

static void ranks_of_another_run_are_ignored(void **state)
{
    int port = pick_port();
    (void)state;
    start_rank(0, 2, run_token, port, CLOCK_NS_PER_S);
    start_rank(1, 2, run_token + 1, port, CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        join_rank(r);
        assert_int_equal(ranks[r].status, -ETIMEDOUT);
    }
}

static void differing_rank_counts_are_reported_on_both_sides(void **state)
{
    int port = pick_port();
    (void)state;
    start_rank(0, 2, run_token, port, 60 * CLOCK_NS_PER_S);
    start_rank(1, 3, run_token, port, 60 * CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        join_rank(r);
        assert_int_equal(ranks[r].status, -EINVAL);
        assert_non_null(strstr(ranks[r].err.what, "disagree on the number of ranks"));
        assert_non_null(strstr(ranks[r].err.advice, "WORLD_SIZE"));
    }
}

static void an_invalid_address_is_named(void **state)
{
    (void)state;
    struct rank rank = {.options = {.address = "no such host",
                                    .port = 20000,
                                    .rank = 1,
                                    .ranks = 2,
                                    .timeout_ns = CLOCK_NS_PER_S}};
    run_rendezvous(&rank);
    assert_int_equal(rank.status, -EINVAL);
    assert_string_equal(rank.err.found, "no such host");
}

/* A non-loopback address of this machine; false if it has none. */
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

static void ranks_on_rank_0s_host_are_reachable_from_other_hosts(void **state)
{
    char elsewhere[INET_ADDRSTRLEN], reached[INET_ADDRSTRLEN];
    int port = pick_port();
    (void)state;
    if (!find_address(elsewhere))
        skip();
    /* the last rank uses the network address; the others use Debian's address for their own host
     * name */
    for (int r = 0; r < RANKS; r++)
        start_rank_at(r, RANKS, run_token, r == 2 ? elsewhere : "127.0.1.1", port,
                      60 * CLOCK_NS_PER_S);
    assert_all_connected(RANKS);
    struct sockaddr_storage other = {0};
    socklen_t bytes = sizeof other;
    assert_int_equal(getpeername(ranks[2].sockets[1], (struct sockaddr *)&other, &bytes), 0);
    assert_int_equal(other.ss_family, AF_INET);
    assert_non_null(
        inet_ntop(AF_INET, &((struct sockaddr_in *)&other)->sin_addr, reached, sizeof reached));
    assert_string_equal(reached, elsewhere);
    close_all(RANKS);
}

static void a_rendezvous_stops_on_request(void **state)
{
    (void)state;
    /* the first rank waits for the second; the second finds no one */
    for (int r = 0; r < 2; r++) {
        atomic_store(&stop, 0);
        start_rank(r, 2, run_token, pick_port(), 3600 * CLOCK_NS_PER_S);
        atomic_store(&stop, 15);
        join_rank(r);
        assert_int_equal(ranks[r].status, -EINTR);
    }
    atomic_store(&stop, 0);
}

static void a_rank_that_fails_meanwhile_ends_the_rendezvous(void **state)
{
    int port = pick_port();
    (void)state;
    start_rank(0, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    start_rank(1, RANKS, run_token, port, 3600 * CLOCK_NS_PER_S);
    int last = connect_to_rank0(port); /* a rank that connects to rank 0 only */
    handshake(last, 2, 0, &no_secret);
    join_rank(0);
    assert_ok(ranks[0].status, &ranks[0].err);
    /* now rank 0 has all ranks, and fails; the last rank never connects to the second */
    for (int r = 1; r < RANKS; r++)
        close(ranks[0].sockets[r]);
    join_rank(1);
    assert_int_equal(ranks[1].status, -ECONNABORTED);
    assert_non_null(strstr(ranks[1].err.what, "rank 0 left before all ranks had connected"));
    close(last);
}

/* The second rank has all ranks' addresses and is busy while the last one connects, gives up and
 * connects again. */
static void a_connection_that_closed_early_may_be_retried(void **state)
{
    int port = pick_port();
    struct tcp_address addresses[RANKS];
    struct tcp_hello unanswered;
    char byte;
    (void)state;
    start_rank(0, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    start_rank(1, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    int first = connect_to_rank0(port);
    handshake(first, 2, 0, &no_secret);
    uint64_t run = receive_addresses(first, addresses);
    /* queued first, so it is handled before the second connection */
    int gave_up = connect_to_address(&addresses[1]);
    send_hello(gave_up, 2, run, &unanswered);
    close(gave_up);
    int again = connect_to_address(&addresses[1]);
    handshake(again, 2, run, &no_secret);
    for (int r = 0; r < 2; r++) {
        join_rank(r);
        assert_ok(ranks[r].status, &ranks[r].err);
    }
    assert_int_equal(send(ranks[1].sockets[2], "x", 1, MSG_NOSIGNAL), 1);
    receive(again, &byte, 1); /* the second connection is the valid one */
    close(first);
    close(again);
    for (int r = 0; r < 2; r++)
        for (int other = 0; other < RANKS; other++)
            if (other != r)
                close(ranks[r].sockets[other]);
}

static void a_rank_that_left_early_is_awaited_again(void **state)
{
    const struct linger reset = {.l_onoff = 1}; /* close sends a reset instead of an end of file */
    int port = pick_port(), fd[RANKS];
    struct tcp_address addresses[RANKS];
    (void)state;
    start_rank(0, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    for (int i = 0; i < 2; i++) {
        fd[2] = connect_to_rank0(port);
        handshake(fd[2], 2, 0, &no_secret);
        if (i == 0)
            assert_int_equal(setsockopt(fd[2], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        close(fd[2]);
    }
    fd[1] = connect_to_rank0(port);
    handshake(fd[1], 1, 0, &no_secret);
    fd[2] = connect_to_rank0(port);
    handshake(fd[2], 2, 0, &no_secret);
    for (int r = 1; r < RANKS; r++)
        receive_addresses(fd[r], addresses);
    join_rank(0);
    assert_ok(ranks[0].status, &ranks[0].err);
    for (int r = 1; r < RANKS; r++) {
        close(fd[r]);
        close(ranks[0].sockets[r]);
    }
}

/* Whether a process is listening on the given local address and port. */
static bool is_listening_on(uint32_t address, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = address};
    bool is_open = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is_open;
}

static void ranks_listen_only_on_the_interface_towards_rank_0(void **state)
{
    int port = pick_port(), listen_port = 0;
    struct tcp_address addresses[RANKS];
    (void)state;
    start_rank(0, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    int first = connect_to_rank0(port);
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    assert_int_equal(getpeername(first, (struct sockaddr *)&address, &bytes), 0);
    listen_port = ntohs(address.sin_port);
    assert_true(is_listening_on(htonl(INADDR_LOOPBACK), listen_port));
    /* 127.0.0.2 is also local */
    assert_false(is_listening_on(htonl(INADDR_LOOPBACK + 1), listen_port));
    handshake(first, 2, 0, &no_secret);
    start_rank(1, RANKS, run_token, port, 60 * CLOCK_NS_PER_S);
    uint64_t run = receive_addresses(first, addresses);
    listen_port = ntohs(((struct sockaddr_in *)&addresses[1].address)->sin_port);
    assert_true(is_listening_on(htonl(INADDR_LOOPBACK), listen_port));
    assert_false(is_listening_on(htonl(INADDR_LOOPBACK + 1), listen_port));
    int second = connect_to_address(&addresses[1]);
    handshake(second, 2, run, &no_secret);
    for (int r = 0; r < 2; r++) {
        join_rank(r);
        assert_ok(ranks[r].status, &ranks[r].err);
        for (int other = 0; other < RANKS; other++)
            if (other != r)
                close(ranks[r].sockets[other]);
    }
    close(first);
    close(second);
}

static struct tcp_secret make_secret(const char *text)
{
    struct tcp_secret secret = {.bytes = strlen(text)};
    memcpy(secret.key, text, secret.bytes);
    return secret;
}

static void ranks_with_the_same_secret_connect(void **state)
{
    const struct tcp_secret secret = make_secret("correct horse battery staple");
    int port = pick_port();
    (void)state;
    for (int r = 0; r < RANKS; r++)
        start_rank_with_secret(r, RANKS, run_token, "127.0.0.1", port, 60 * CLOCK_NS_PER_S,
                               &secret);
    assert_all_connected(RANKS);
    close_all(RANKS);
}

/* A rank with a different secret, or none, gets an error at once. The others keep waiting, and
 * report that rank when they time out. */
static void a_rank_without_the_secret_is_refused_and_named(void **state)
{
    const struct tcp_secret secret = make_secret("correct horse battery staple"),
                            other = make_secret("correct horse battery stable");
    const struct tcp_secret *const theirs[] = {&other, NULL};
    char line[ERR_LINE_BYTES_MAX];
    (void)state;
    for (int i = 0; i < 2; i++) {
        int port = pick_port();
        start_rank_with_secret(0, 2, run_token, "127.0.0.1", port, 3600 * CLOCK_NS_PER_S, &secret);
        start_rank_with_secret(1, 2, run_token, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, theirs[i]);
        join_rank(1);
        assert_int_equal(ranks[1].status, -EACCES);
        err_format(&ranks[1].err, line, sizeof line);
        assert_non_null(strstr(line, "ranks 1 and 0 do not have the same secret"));
        assert_non_null(
            strstr(line, i ? "none on rank 1, a secret on rank 0" : "a secret on rank 1"));
        assert_non_null(strstr(line, "MILLRACE_SECRET"));
        assert_null(strstr(line, "horse"));
        atomic_store(&stop, 15);
        join_rank(0);
        atomic_store(&stop, 0);
        assert_int_equal(ranks[0].status, -EINTR);
        err_format(&ranks[0].err, line, sizeof line);
        assert_non_null(strstr(line, "rank 1 connected without the same secret"));
        assert_null(strstr(line, "horse"));
    }
}

/* Only a peer that has proved that it knows the secret receives a proof. */
static void the_secret_is_not_revealed_to_strangers(void **state)
{
    static const struct tcp_proof nothing;
    const struct tcp_secret secret = make_secret("correct horse battery staple");
    int port = pick_port();
    struct tcp_hello own, hello, again;
    struct tcp_proof proof, answer;
    char byte;
    (void)state;
    start_rank_with_secret(0, RANKS, run_token, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, &secret);
    int fd = connect_to_rank0(port);
    send_hello(fd, 2, 0, &own);
    receive(fd, &hello, sizeof hello);
    /* a proof for the other role */
    assert_int_equal(tcp_secret_prove(&secret, TCP_ROLE_RESPONDER, &own, &hello, &proof), 0);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    receive(fd, &answer, sizeof answer);
    assert_memory_equal(&answer, &nothing, sizeof answer);
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* connection closed */
    close(fd);
    /* a recorded proof is useless on a different connection */
    assert_int_equal(tcp_secret_prove(&secret, TCP_ROLE_INITIATOR, &own, &hello, &proof), 0);
    fd = connect_to_rank0(port);
    send_hello(fd, 2, 0, &own);
    receive(fd, &again, sizeof again);
    assert_memory_not_equal(again.nonce, hello.nonce, sizeof hello.nonce);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    receive(fd, &answer, sizeof answer);
    assert_memory_equal(&answer, &nothing, sizeof answer);
    close(fd);
    for (int r = 1; r < RANKS; r++)
        start_rank_with_secret(r, RANKS, run_token, "127.0.0.1", port, 60 * CLOCK_NS_PER_S,
                               &secret);
    assert_all_connected(RANKS);
    close_all(RANKS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_find_each_other_despite_stray_connections),
        cmocka_unit_test(missing_ranks_are_named_with_the_address_expected),
        cmocka_unit_test(connections_do_not_occupy_the_first_ranks_port),
        cmocka_unit_test(ranks_of_another_run_are_ignored),
        cmocka_unit_test(differing_rank_counts_are_reported_on_both_sides),
        cmocka_unit_test(an_invalid_address_is_named),
        cmocka_unit_test(ranks_on_rank_0s_host_are_reachable_from_other_hosts),
        cmocka_unit_test(a_rendezvous_stops_on_request),
        cmocka_unit_test(a_rank_that_fails_meanwhile_ends_the_rendezvous),
        cmocka_unit_test(a_connection_that_closed_early_may_be_retried),
        cmocka_unit_test(a_rank_that_left_early_is_awaited_again),
        cmocka_unit_test(ranks_listen_only_on_the_interface_towards_rank_0),
        cmocka_unit_test(ranks_with_the_same_secret_connect),
        cmocka_unit_test(a_rank_without_the_secret_is_refused_and_named),
        cmocka_unit_test(the_secret_is_not_revealed_to_strangers),
    };
    if (getrandom(&run_token, sizeof run_token, 0) != sizeof run_token)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
