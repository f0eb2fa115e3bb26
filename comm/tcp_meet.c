/*
 * tcp_meet — see tcp_meet.h.
 */
#include "comm/tcp_meeting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RESOLVE_NS (5 * CLOCK_NS_PER_S) /* between questions where rank 0 is */
enum { PAUSE_NS = 20000000, LOOK_MS = 100 };

bool tcp_meeting_is_over(const struct tcp_meeting *meeting)
{
    const atomic_int *stop = meeting->options->stop;
    return clock_now_ns() >= meeting->until_ns || (stop && atomic_load(stop));
}

void tcp_meeting_pause(const struct tcp_meeting *meeting, uint64_t time_ns)
{
    uint64_t until_ns = clock_now_ns() + time_ns;
    do
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    while (!tcp_meeting_is_over(meeting) && clock_now_ns() < until_ns);
}

static void tell_missing(const struct tcp_meeting *meeting, struct err *err)
{
    char missing[120] = "", refused[60] = "";
    size_t used = 0;
    for (int r = 0; r < meeting->options->ranks && used < sizeof missing - 16; r++)
        if (r != meeting->options->rank && meeting->sockets[r] < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     used ? ", " : "", r);
    if (meeting->refused >= 0)
        snprintf(refused, sizeof refused, "; rank %d called without the same secret",
                 meeting->refused);
    err_found(err, "nothing of rank %s%s%s%s", missing,
              meeting->accept_status ? "; calls could not be taken: " : "",
              meeting->accept_status ? strerrordesc_np(-meeting->accept_status) : "", refused);
}

int tcp_meeting_tell_over(const struct tcp_meeting *meeting, struct err *err)
{
    const atomic_int *stop = meeting->options->stop;
    if (stop && atomic_load(stop)) {
        err_set(err, -EINTR, "rank %d was stopped on request, before all ranks had come",
                meeting->options->rank);
        tell_missing(meeting, err);
        return -EINTR;
    }
    err_set(err, -ETIMEDOUT, "rank %d of %d did not find all others by %.100s",
            meeting->options->rank, meeting->options->ranks, meeting->options->address);
    tell_missing(meeting, err);
    err_advise(err,
               "start all of them; MASTER_ADDR is to be rank 0's machine as the others see it, and "
               "its ports "
               "%d to %d open to them",
               tcp_callers_port(meeting->options, 1),
               tcp_callers_port(meeting->options, TCP_MEET_PORTS));
    return -ETIMEDOUT;
}

/* Connecting and sending end in time, too. */
void tcp_meeting_limit(int made)
{
    const struct timeval time = {.tv_sec = TCP_HELLO_NS / CLOCK_NS_PER_S};
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

bool tcp_meeting_give(int to, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t count = send(to, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        sent += (size_t)count;
    }
    return true;
}

int tcp_meeting_hello(const struct tcp_meeting *meeting, struct tcp_hello *ret_hello)
{
    const struct tcp_meet_options *options = meeting->options;
    *ret_hello = (struct tcp_hello){.magic = TCP_HELLO_MAGIC,
                                    .token = options->token,
                                    .run = meeting->run,
                                    .rank = options->rank,
                                    .ranks = options->ranks,
                                    .listens_at = meeting->listens_at,
                                    .has_secret = options->secret && options->secret->bytes > 0};
    ssize_t count =
        getrandom(ret_hello->nonce, sizeof ret_hello->nonce, 0); /* never less of so few bytes */
    return count == (ssize_t)sizeof ret_hello->nonce ? 0 : count < 0 ? -errno : -EIO;
}

int tcp_meeting_prove(const struct tcp_meeting *meeting, enum tcp_role role,
                      const struct tcp_hello *caller, const struct tcp_hello *called,
                      struct tcp_proof *ret_proof)
{
    static const struct tcp_secret none;
    const struct tcp_secret *secret = meeting->options->secret;
    return tcp_secret_prove(secret ? secret : &none, role, caller, called, ret_proof);
}

/* Somebody of this run, but how many are we? */
int tcp_meeting_check_ranks(const struct tcp_meeting *meeting, const struct tcp_hello *hello,
                            struct err *err)
{
    if (hello->ranks == meeting->options->ranks)
        return 0;
    err_set(err, -EINVAL, "ranks %d and %d were told different numbers of ranks",
            meeting->options->rank, hello->rank);
    err_expected(err, "%d", meeting->options->ranks);
    err_found(err, "%d", hello->ranks);
    err_advise(err, "give all ranks the same WORLD_SIZE");
    return -EINVAL;
}

/* All of it in that time, which is no longer than the meeting. False where it does not come. */
static bool take(const struct tcp_meeting *meeting, int from, void *data, size_t bytes,
                 uint64_t time_ns)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    uint64_t began_ns = clock_now_ns();
    for (size_t got = 0; got < bytes;) {
        int polled = poll(&ready, 1, LOOK_MS);
        if (tcp_meeting_is_over(meeting) || clock_now_ns() - began_ns >= time_ns ||
            (polled < 0 && errno != EINTR))
            return false;
        if (polled != 1)
            continue;
        ssize_t count = recv(from, (char *)data + got, bytes - got, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        got += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool has_all_above(const struct tcp_meeting *meeting)
{
    for (int r = meeting->options->rank + 1; r < meeting->options->ranks; r++)
        if (meeting->sockets[r] < 0)
            return false;
    return true;
}

static int port_in(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

static void set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

bool tcp_meeting_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Those beside the first rank may have called it by an address that is only this machine's: for
 * ranks elsewhere they are where they found it. */
static bool tell_places(const struct tcp_meeting *meeting, int receiver)
{
    struct tcp_hello own;
    struct sockaddr_storage here;
    socklen_t bytes = sizeof here;
    bool is_elsewhere = !tcp_meeting_is_loopback(&meeting->places[receiver].address);
    if (tcp_meeting_hello(meeting, &own) ||
        !tcp_meeting_give(meeting->sockets[receiver], &own, sizeof own) ||
        getsockname(meeting->sockets[receiver], (struct sockaddr *)&here, &bytes))
        return false;
    tcp_callers_be_plain(&here);
    for (int r = 0; r < meeting->options->ranks; r++) {
        struct tcp_place place = meeting->places[r];
        if (r > 0 && is_elsewhere && tcp_meeting_is_loopback(&place.address)) {
            int port = port_in(&place.address);
            place.address = here;
            set_port(&place.address, port);
        }
        if (!tcp_meeting_give(meeting->sockets[receiver], &place, sizeof place))
            return false;
    }
    return true;
}

/* The first rank: hears all, and then tells all. */
static int gather_places(struct tcp_meeting *meeting, struct err *err)
{
    int ranks = meeting->options->ranks, status = 0;
    if (getrandom(&meeting->run, sizeof meeting->run, 0) != sizeof meeting->run)
        return err_errno(err, -errno, "no random number");
    while (!has_all_above(meeting)) {
        struct tcp_hello hello;
        struct sockaddr_storage address;
        status = tcp_callers_accept(meeting, &hello, &address, err);
        if (status)
            return status;
        set_port(&address, hello.listens_at);
        meeting->places[hello.rank].address = address;
    }
    for (int r = 1; r < ranks; r++)
        if (!tell_places(meeting, r))
            return err_set(err, -ECONNABORTED, "rank %d left before all had come", r);
    return 0;
}

/* -1 where nobody answers. */
static int call(const struct sockaddr *address, socklen_t bytes)
{
    int made = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0)
        tcp_meeting_limit(made);
    if (made >= 0 && connect(made, address, bytes)) {
        close(made);
        made = -1;
    }
    return made;
}

static int refuse_secret(int rank, const struct tcp_hello *own, const struct tcp_hello *hello,
                         struct err *err)
{
    err_set(err, -EACCES, "ranks %d and %d do not have the same secret", own->rank, rank);
    err_found(err, "%s of rank %d, %s of rank %d", own->has_secret ? "a secret" : "none", own->rank,
              hello->has_secret ? "a secret" : "none", rank);
    err_advise(err, "give all ranks the same " TCP_SECRET_VARIABLE " or " TCP_SECRET_FILE_VARIABLE);
    return -EACCES;
}

/* Of a rank that was called; see tcp_wire.h. 0: each knows the other. -EAGAIN: it is a stranger or
 * does not answer; -EINVAL, -EACCES. */
static int shake_hands(const struct tcp_meeting *meeting, int made, int rank, struct err *err)
{
    struct tcp_hello own, hello;
    struct tcp_proof proof, expected;
    uint8_t heard[sizeof hello];
    int status = tcp_meeting_hello(meeting, &own);
    if (status)
        return err_errno(err, status, "no random number");
    if (!tcp_meeting_give(made, &own, sizeof own) ||
        !take(meeting, made, heard, sizeof heard, TCP_PROOF_NS) ||
        !tcp_hello_decode(heard, own.token, &hello) || hello.rank != rank ||
        (meeting->run && hello.run != meeting->run))
        return -EAGAIN;
    status = tcp_meeting_prove(meeting, TCP_ROLE_CALLER, &own, &hello, &proof);
    if (!status)
        status = tcp_meeting_prove(meeting, TCP_ROLE_CALLED, &own, &hello, &expected);
    if (status)
        return err_errno(err, status, "no proof of the ranks' secret");
    if (!tcp_meeting_give(made, &proof, sizeof proof) ||
        !take(meeting, made, &proof, sizeof proof, TCP_PROOF_NS))
        return -EAGAIN;
    if (!hmac_is_equal(proof.mac, expected.mac))
        return refuse_secret(rank, &own, &hello, err);
    return tcp_meeting_check_ranks(meeting, &hello, err);
}

/* Of the first rank, at one of its ports. 0: each knows the other; -EAGAIN: not yet there; else as
 * shake_hands, or listening failed. */
static int call_first(struct tcp_meeting *meeting, const struct addrinfo *found, int port,
                      struct err *err)
{
    struct sockaddr_storage address;
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    set_port(&address, port);
    int made = call((struct sockaddr *)&address, found->ai_addrlen);
    if (made < 0)
        return -EAGAIN;
    int status = tcp_callers_listen_beside(meeting, made, err);
    if (!status)
        status = shake_hands(meeting, made, 0, err);
    if (status)
        close(made);
    else
        meeting->sockets[0] = made;
    return status;
}

/* It goes on when all have come. -EAGAIN: it has left before; -EPROTO, -ENOMEM. */
static int hear_first(struct tcp_meeting *meeting, struct err *err)
{
    struct tcp_hello hello;
    uint8_t heard[sizeof hello];
    int status = -EAGAIN;
    size_t bytes = (size_t)meeting->options->ranks * sizeof *meeting->places;
    void *places = malloc(bytes);
    if (!places)
        return err_set(err, -ENOMEM, "out of memory for %d ranks", meeting->options->ranks);
    if (take(meeting, meeting->sockets[0], heard, sizeof heard, UINT64_MAX) &&
        tcp_hello_decode(heard, meeting->options->token, &hello) &&
        take(meeting, meeting->sockets[0], places, bytes, TCP_PROOF_NS))
        status = tcp_places_decode(places, meeting->options->ranks, meeting->places, err);
    free(places);
    if (status) {
        close(meeting->sockets[0]);
        meeting->sockets[0] = -1;
    } else {
        meeting->run = hello.run;
    }
    return status;
}

/* -EAGAIN: nobody is there yet. */
static int find_first(struct tcp_meeting *meeting, const struct addrinfo *all, struct err *err)
{
    uint64_t until_ns =
        clock_now_ns() + RESOLVE_NS; /* until its name may have got another address */
    while (!tcp_meeting_is_over(meeting) && clock_now_ns() < until_ns) {
        for (const struct addrinfo *found = all; found; found = found->ai_next)
            for (int i = 1; i <= TCP_MEET_PORTS && !tcp_meeting_is_over(meeting); i++) {
                int status = call_first(meeting, found, tcp_callers_port(meeting->options, i), err);
                if (!status)
                    status = hear_first(meeting, err);
                if (status != -EAGAIN)
                    return status;
            }
        tcp_meeting_pause(meeting, PAUSE_NS);
    }
    return -EAGAIN;
}

/* Its name may be known late, as its machine may come late. */
static int ask_places(struct tcp_meeting *meeting, struct err *err)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int code = 0, status = -EAGAIN;
    while (status == -EAGAIN && !tcp_meeting_is_over(meeting)) {
        code = getaddrinfo(meeting->options->address, NULL, &wanted, &all);
        if (code) {
            tcp_meeting_pause(meeting, RESOLVE_NS / 5);
            continue;
        }
        status = find_first(meeting, all, err);
        freeaddrinfo(all);
    }
    if (status != -EAGAIN)
        return status;
    status = tcp_meeting_tell_over(meeting, err);
    if (code && status == -ETIMEDOUT) {
        err_set(err, -EINVAL, "the first rank's address can't be found: %s", gai_strerror(code));
        err_found(err, "%.200s", meeting->options->address);
        return -EINVAL;
    }
    return status;
}

/* It listens until this rank has called: who refuses has left, everything else may pass. */
static int call_other(struct tcp_meeting *meeting, int rank, struct err *err)
{
    const struct sockaddr *address = (const struct sockaddr *)&meeting->places[rank].address;
    socklen_t bytes =
        address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    int status = -ETIMEDOUT;
    for (; !tcp_meeting_is_over(meeting) && status != -ECONNREFUSED;
         tcp_meeting_pause(meeting, PAUSE_NS)) {
        int made = call(address, bytes);
        status = made >= 0              ? shake_hands(meeting, made, rank, err)
                 : errno == EINPROGRESS ? -ETIMEDOUT
                                        : -errno;
        if (made >= 0 && !status) {
            meeting->sockets[rank] = made;
            return 0;
        }
        if (made < 0)
            continue;
        close(made);
        if (status != -EAGAIN)
            return status;
        status = -ECONNABORTED;
    }
    if (tcp_meeting_tell_over(meeting, err) == -EINTR)
        return -EINTR;
    getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    err_errno(err, status, "rank %d can't be reached by rank %d", rank, meeting->options->rank);
    err_found(err, "%s port %s", host, port);
    err_advise(err,
               "look whether it has ended; all ports between the machines of a run must be open");
    return status;
}

/* Those below it; then those above it call. */
static int connect_others(struct tcp_meeting *meeting, struct err *err)
{
    struct tcp_hello hello;
    struct sockaddr_storage address;
    int status = 0;
    for (int r = 1; r < meeting->options->rank && !status; r++)
        status = call_other(meeting, r, err);
    while (!status && !has_all_above(meeting))
        status = tcp_callers_accept(meeting, &hello, &address, err);
    return status;
}

/* For what comes. A rank's machine that vanishes is missed in a minute where nothing is sent to it;
 * else see tcp_peer_is_lost. */
static void prepare(int made)
{
    const int on = 1, idle_s = 15, interval_s = 5, count = 6;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(made, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(made, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(made, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    fcntl(made, F_SETFL, O_NONBLOCK);
}

int tcp_meet(const struct tcp_meet_options *options, int *ret_sockets, struct err *err)
{
    struct tcp_meeting meeting = {.options = options,
                                  .until_ns = clock_now_ns() + options->timeout_ns,
                                  .refused = -1,
                                  .sockets = ret_sockets};
    assert(options->ranks > 1 && options->rank >= 0 && options->rank < options->ranks);
    assert(options->ranks <= TCP_MEET_RANKS_MAX);
    for (int r = 0; r < options->ranks; r++)
        ret_sockets[r] = -1;
    for (int i = 0; i < TCP_CALLERS_MAX; i++)
        meeting.callers[i].socket = -1;
    meeting.places = calloc((size_t)options->ranks, sizeof *meeting.places);
    int status =
        meeting.places ? 0 : err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    if (!status && options->rank == 0)
        status = tcp_callers_listen(&meeting, err);
    if (!status)
        status = options->rank == 0 ? gather_places(&meeting, err) : ask_places(&meeting, err);
    if (!status && options->rank > 0)
        status = connect_others(&meeting, err);
    for (int r = 0; r < options->ranks; r++) {
        if (ret_sockets[r] < 0)
            continue;
        prepare(ret_sockets[r]);
        if (status) {
            close(ret_sockets[r]);
            ret_sockets[r] = -1;
        }
    }
    tcp_callers_close(&meeting);
    free(meeting.places);
    return status;
}
