/*
 * tcp_rendezvous — tests that ranks find each other despite unrelated connections, and report why
 * if they don't. Each rank is a thread.
 */
#include "comm/tcp/tcp_rendezvous.h"

#include "base/clock.h"
#include "base/os/thread.h"
#include "comm/tcp/tcp_bootstrap.h"
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
#include <sys/stat.h>
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
static uint64_t own_run; /* separates concurrent instances of this test */

static void *meet(void *argument)
{
    struct rank *rank = argument;
    rank->status = tcp_rendezvous(&rank->options, rank->sockets, &rank->err);
    return NULL;
}

/* Ranks listen on the ports that follow; the range avoids ephemeral ports. */
static int some_port(void)
{
    uint16_t random;
    assert_int_equal(getrandom(&random, sizeof random, 0), sizeof random);
    return 10000 + random % 20000;
}

/* Connects to the port; -1 if nothing listens there. */
static int call(int port)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(made, (struct sockaddr *)&address, sizeof address) == 0)
        return made;
    close(made);
    return -1;
}

/* Connects to the first port on which rank 0 listens, retrying until it does. */
static int call_first(int port)
{
    int made = -1;
    for (int i = 1; made < 0; i = i % TCP_RENDEZVOUS_PORTS + 1)
        made = call(port + i);
    return made;
}

/* Sends the hello of a rank that connects to another; the test plays that rank. */

static void say_hello(int made, int rank, uint64_t run, struct tcp_hello *ret_hello)
{
    *ret_hello = (struct tcp_hello){.magic = TCP_HELLO_MAGIC,
                                    .token = own_run,
                                    .run = run,
                                    .rank = rank,
                                    .ranks = RANKS,
                                    .listen_port = 1};
    assert_int_equal(send(made, ret_hello, sizeof *ret_hello, MSG_NOSIGNAL), sizeof *ret_hello);
}

static void receive(int made, void *data, size_t bytes)
{
    assert_int_equal(recv(made, data, bytes, MSG_WAITALL), bytes);
}

/* Exchanges hellos with the other rank, which must have the same secret; returns its hello. */
static struct tcp_hello shake_hands(int made, int rank, uint64_t run,
                                    const struct tcp_secret *secret)
{
    struct tcp_hello own, hello;
    struct tcp_proof proof, expected;
    say_hello(made, rank, run, &own);
    receive(made, &hello, sizeof hello);
    assert_int_equal(tcp_secret_prove(secret, TCP_ROLE_INITIATOR, &own, &hello, &proof), 0);
    assert_int_equal(send(made, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    assert_int_equal(tcp_secret_prove(secret, TCP_ROLE_RESPONDER, &own, &hello, &expected), 0);
    receive(made, &proof, sizeof proof);
    assert_memory_equal(&proof, &expected, sizeof proof);
    return hello;
}

/* Receives the addresses of all ranks from rank 0, once all have connected; returns the run's
 * number. */
static uint64_t receive_places(int made, struct tcp_address places[RANKS])
{
    struct tcp_hello hello;
    receive(made, &hello, sizeof hello);
    receive(made, places, RANKS * sizeof *places);
    return hello.run;
}

static int call_place(const struct tcp_address *place)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        connect(made, (const struct sockaddr *)&place->address, sizeof(struct sockaddr_in)), 0);
    return made;
}

static const struct tcp_secret no_secret;

static void start_with(int rank, int count, uint64_t token, const char *address, int port,
                       uint64_t timeout_ns, const struct tcp_secret *secret)
{
    memset(&ranks[rank], 0, sizeof ranks[rank]);
    ranks[rank].options = (struct tcp_rendezvous_options){.address = address,
                                                          .port = port,
                                                          .rank = rank,
                                                          .ranks = count,
                                                          .token = token,
                                                          .secret = secret,
                                                          .timeout_ns = timeout_ns,
                                                          .stop = &stop};
    assert_int_equal(thread_start(&ranks[rank].thread, meet, &ranks[rank]), 0);
}

static void start_at(int rank, int count, uint64_t token, const char *address, int port,
                     uint64_t timeout_ns)
{
    start_with(rank, count, token, address, port, timeout_ns, NULL);
}

static void start(int rank, int count, uint64_t token, int port, uint64_t timeout_ns)
{
    start_at(rank, count, token, "127.0.0.1", port, timeout_ns);
}

static void end(int rank)
{
    assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
}

/* Checks that all ranks have found each other, before any of them leaves. */
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

static void ranks_find_each_other_despite_stray_connections(void **state)
{
    static const char noise[4096] = "GET / HTTP/1.1\r\n\r\n";
    int port = some_port();
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    int silent = call_first(port); /* sends nothing and stays connected */
    int loud = call_first(port);
    assert_true(send(loud, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    start(1, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    start(2, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    check_met(RANKS);
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
        start(r, 2, own_run, some_port(), CLOCK_NS_PER_S / 5);
        end(r);
        assert_int_equal(ranks[r].status, -ETIMEDOUT);
        err_format(&ranks[r].err, line, sizeof line);
        assert_non_null(strstr(line, "did not find all the others through 127.0.0.1"));
        assert_non_null(strstr(line, r ? "nothing from rank 0" : "nothing from rank 1"));
        assert_non_null(strstr(line, "MASTER_ADDR"));
    }
}

static bool is_kept_from_others(int port)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_kept =
        bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1);
    close(listener);
    return is_kept;
}

static void connections_do_not_occupy_the_first_ranks_port(void **state)
{
    int port = some_port();
    (void)state;
    for (int r = 0; r < 2; r++)
        start(r, 2, own_run, port, 60 * CLOCK_NS_PER_S);
    check_met(2);
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(ranks[0].sockets[1], (struct sockaddr *)&own, &bytes), 0);
    /* sin6_port has the same offset */
    assert_false(is_kept_from_others(ntohs(((struct sockaddr_in *)&own)->sin_port)));
    close_all(2);
}

static void ranks_of_another_run_are_ignored(void **state)
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

static void differing_rank_counts_are_reported_on_both_sides(void **state)
{
    int port = some_port();
    (void)state;
    start(0, 2, own_run, port, 60 * CLOCK_NS_PER_S);
    start(1, 3, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int r = 0; r < 2; r++) {
        end(r);
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
    meet(&rank);
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
    char elsewhere[INET_ADDRSTRLEN], called[INET_ADDRSTRLEN];
    int port = some_port();
    (void)state;
    if (!find_address(elsewhere))
        skip();
    /* the last rank uses the network address; the others use Debian's address for their own host
     * name */
    for (int r = 0; r < RANKS; r++)
        start_at(r, RANKS, own_run, r == 2 ? elsewhere : "127.0.1.1", port, 60 * CLOCK_NS_PER_S);
    check_met(RANKS);
    struct sockaddr_storage other = {0};
    socklen_t bytes = sizeof other;
    assert_int_equal(getpeername(ranks[2].sockets[1], (struct sockaddr *)&other, &bytes), 0);
    assert_int_equal(other.ss_family, AF_INET);
    assert_non_null(
        inet_ntop(AF_INET, &((struct sockaddr_in *)&other)->sin_addr, called, sizeof called));
    assert_string_equal(called, elsewhere);
    close_all(RANKS);
}

static void a_rendezvous_stops_on_request(void **state)
{
    (void)state;
    /* the first rank waits for the second; the second finds no one */
    for (int r = 0; r < 2; r++) {
        atomic_store(&stop, 0);
        start(r, 2, own_run, some_port(), 3600 * CLOCK_NS_PER_S);
        atomic_store(&stop, 15);
        end(r);
        assert_int_equal(ranks[r].status, -EINTR);
    }
    atomic_store(&stop, 0);
}

static void a_rank_that_fails_meanwhile_ends_the_rendezvous(void **state)
{
    int port = some_port();
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    start(1, RANKS, own_run, port, 3600 * CLOCK_NS_PER_S);
    int last = call_first(port); /* a rank that connects to rank 0 only */
    shake_hands(last, 2, 0, &no_secret);
    end(0);
    assert_ok(ranks[0].status, &ranks[0].err);
    /* now rank 0 has all ranks, and fails; the last rank never connects to the second */
    for (int r = 1; r < RANKS; r++)
        close(ranks[0].sockets[r]);
    end(1);
    assert_int_equal(ranks[1].status, -ECONNABORTED);
    assert_non_null(strstr(ranks[1].err.what, "rank 0 left before all ranks had connected"));
    close(last);
}

/* The second rank has all ranks' addresses and is busy while the last one connects, gives up and
 * connects again. */
static void a_connection_that_closed_early_may_be_retried(void **state)
{
    int port = some_port();
    struct tcp_address places[RANKS];
    struct tcp_hello unanswered;
    char byte;
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    start(1, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    int first = call_first(port);
    shake_hands(first, 2, 0, &no_secret);
    uint64_t run = receive_places(first, places);
    /* queued first, so it is handled before the second connection */
    int gave_up = call_place(&places[1]);
    say_hello(gave_up, 2, run, &unanswered);
    close(gave_up);
    int again = call_place(&places[1]);
    shake_hands(again, 2, run, &no_secret);
    for (int r = 0; r < 2; r++) {
        end(r);
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
    int port = some_port(), made[RANKS];
    struct tcp_address places[RANKS];
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    for (int i = 0; i < 2; i++) {
        made[2] = call_first(port);
        shake_hands(made[2], 2, 0, &no_secret);
        if (i == 0)
            assert_int_equal(setsockopt(made[2], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        close(made[2]);
    }
    made[1] = call_first(port);
    shake_hands(made[1], 1, 0, &no_secret);
    made[2] = call_first(port);
    shake_hands(made[2], 2, 0, &no_secret);
    for (int r = 1; r < RANKS; r++)
        receive_places(made[r], places);
    end(0);
    assert_ok(ranks[0].status, &ranks[0].err);
    for (int r = 1; r < RANKS; r++) {
        close(made[r]);
        close(ranks[0].sockets[r]);
    }
}

/* Whether a process is listening on the given local address and port. */
static bool is_open(uint32_t address, int port)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = address};
    bool is_open = connect(made, (struct sockaddr *)&at, sizeof at) == 0;
    close(made);
    return is_open;
}

static void ranks_listen_only_on_the_interface_towards_rank_0(void **state)
{
    int port = some_port(), listen_port = 0;
    struct tcp_address places[RANKS];
    (void)state;
    start(0, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    int first = call_first(port);
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    assert_int_equal(getpeername(first, (struct sockaddr *)&address, &bytes), 0);
    listen_port = ntohs(address.sin_port);
    assert_true(is_open(htonl(INADDR_LOOPBACK), listen_port));
    /* 127.0.0.2 is also local */
    assert_false(is_open(htonl(INADDR_LOOPBACK + 1), listen_port));
    shake_hands(first, 2, 0, &no_secret);
    start(1, RANKS, own_run, port, 60 * CLOCK_NS_PER_S);
    uint64_t run = receive_places(first, places);
    listen_port = ntohs(((struct sockaddr_in *)&places[1].address)->sin_port);
    assert_true(is_open(htonl(INADDR_LOOPBACK), listen_port));
    assert_false(is_open(htonl(INADDR_LOOPBACK + 1), listen_port));
    int second = call_place(&places[1]);
    shake_hands(second, 2, run, &no_secret);
    for (int r = 0; r < 2; r++) {
        end(r);
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
    int port = some_port();
    (void)state;
    for (int r = 0; r < RANKS; r++)
        start_with(r, RANKS, own_run, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, &secret);
    check_met(RANKS);
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
        int port = some_port();
        start_with(0, 2, own_run, "127.0.0.1", port, 3600 * CLOCK_NS_PER_S, &secret);
        start_with(1, 2, own_run, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, theirs[i]);
        end(1);
        assert_int_equal(ranks[1].status, -EACCES);
        err_format(&ranks[1].err, line, sizeof line);
        assert_non_null(strstr(line, "ranks 1 and 0 do not have the same secret"));
        assert_non_null(
            strstr(line, i ? "none on rank 1, a secret on rank 0" : "a secret on rank 1"));
        assert_non_null(strstr(line, "MILLRACE_SECRET"));
        assert_null(strstr(line, "horse"));
        atomic_store(&stop, 15);
        end(0);
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
    int port = some_port();
    struct tcp_hello own, hello, again;
    struct tcp_proof proof, answer;
    char byte;
    (void)state;
    start_with(0, RANKS, own_run, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, &secret);
    int made = call_first(port);
    say_hello(made, 2, 0, &own);
    receive(made, &hello, sizeof hello);
    /* a proof for the other role */
    assert_int_equal(tcp_secret_prove(&secret, TCP_ROLE_RESPONDER, &own, &hello, &proof), 0);
    assert_int_equal(send(made, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    receive(made, &answer, sizeof answer);
    assert_memory_equal(&answer, &nothing, sizeof answer);
    assert_int_equal(recv(made, &byte, 1, 0), 0); /* connection closed */
    close(made);
    /* a recorded proof is useless on a different connection */
    assert_int_equal(tcp_secret_prove(&secret, TCP_ROLE_INITIATOR, &own, &hello, &proof), 0);
    made = call_first(port);
    say_hello(made, 2, 0, &own);
    receive(made, &again, sizeof again);
    assert_memory_not_equal(again.nonce, hello.nonce, sizeof hello.nonce);
    assert_int_equal(send(made, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    receive(made, &answer, sizeof answer);
    assert_memory_equal(&answer, &nothing, sizeof answer);
    close(made);
    for (int r = 1; r < RANKS; r++)
        start_with(r, RANKS, own_run, "127.0.0.1", port, 60 * CLOCK_NS_PER_S, &secret);
    check_met(RANKS);
    close_all(RANKS);
}

/* Reads the secret from an environment variable and a file; err is cleared first. */
static int read_secret(const char *value, const char *path, struct tcp_secret *ret_secret,
                       struct err *err)
{
    err_clear(err);
    if (value)
        assert_int_equal(setenv(TCP_SECRET_VARIABLE, value, 1), 0);
    if (path)
        assert_int_equal(setenv(TCP_SECRET_FILE_VARIABLE, path, 1), 0);
    int status = tcp_secret_read(ret_secret, err);
    unsetenv(TCP_SECRET_VARIABLE);
    unsetenv(TCP_SECRET_FILE_VARIABLE);
    return status;
}

static void a_secret_comes_from_the_environment_or_a_private_file(void **state)
{
    static const char text[] = "0123456789abcdef0123456789abcdef";
    char path[] = "/tmp/millrace-secret-XXXXXX", longest[TCP_SECRET_BYTES_MAX + 2];
    struct tcp_secret secret;
    struct err err = {0};
    (void)state;
    assert_int_equal(read_secret(NULL, NULL, &secret, &err), 0);
    assert_int_equal(secret.bytes, 0);
    assert_ok(read_secret(text, NULL, &secret, &err), &err);
    assert_int_equal(secret.bytes, 32);
    assert_memory_equal(secret.key, text, 32);
    assert_int_equal(read_secret("", NULL, &secret, &err), -EINVAL);
    assert_int_equal(read_secret("too short", NULL, &secret, &err), -EINVAL);
    assert_null(strstr(err.found, "short"));
    assert_int_equal(read_secret(text, path, &secret, &err), -EINVAL); /* ambiguous */
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(read_secret(longest, NULL, &secret, &err), -EINVAL);
    assert_ok(read_secret(longest + 1, NULL, &secret, &err), &err);

    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, 32), 32);
    assert_int_equal(write(file, "\n", 1), 1);
    close(file);
    assert_ok(read_secret(NULL, path, &secret, &err), &err);
    assert_int_equal(secret.bytes, 32);
    assert_memory_equal(secret.key, text, 32);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(read_secret(NULL, path, &secret, &err), -EACCES);
    assert_string_equal(err.path, path);
    assert_non_null(strstr(err.advice, "chmod 600"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_secret(NULL, path, &secret, &err), -ENOENT);
    assert_int_equal(read_secret(NULL, "/tmp", &secret, &err), -EINVAL);
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
        cmocka_unit_test(a_secret_comes_from_the_environment_or_a_private_file),
    };
    if (getrandom(&own_run, sizeof own_run, 0) != sizeof own_run)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
