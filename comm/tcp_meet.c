/*
 * tcp_meet — see tcp_meet.h.
 */
#include "comm/tcp_meet.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC     UINT64_C(0x3165636172696c6d) /* "milrace1" */
#define HELLO_NS  (2 * CLOCK_NS_PER_S)         /* in which one comes, else it is a stranger's connection */
#define ANSWER_NS (30 * CLOCK_NS_PER_S)        /* in which rank 0 answers one, however slow its machine */
enum {
    PAUSE_NS = 20000000,
    LOOK_MS = 100,
    CALLERS_MAX = 16 /* at a time, before they have said who they are */
};

/* What each side of a connection says first. The same on all machines of a run, which are of one kind. */
struct hello {
    uint64_t magic, token;
    uint64_t run; /* 0 where it is not known yet */
    int32_t rank, ranks;
    int32_t listens_at; /* a port */
    int32_t reserved;
};

/* Where a rank is to be called. */
struct place {
    struct sockaddr_storage address;
};

/* Of somebody who called, as far as it has come; hung up on where there are too many or it takes too long. */
struct caller {
    int socket; /* 0: none */
    struct sockaddr_storage address;
    struct hello hello;
    size_t got;
    uint64_t until_ns;
};

struct meeting {
    const struct tcp_meet_options *options;
    uint64_t until_ns, run;
    int listener, listens_at;
    int *sockets;
    int accept_status;    /* of the last call that could not be taken, or 0 */
    struct place *places; /* [ranks] */
    struct caller callers[CALLERS_MAX];
};

static bool is_late(const struct meeting *meeting)
{
    return clock_now_ns() >= meeting->until_ns;
}

/* No longer than the meeting. */
static uint64_t time_for(const struct meeting *meeting, uint64_t time_ns)
{
    uint64_t now_ns = clock_now_ns(), left_ns = meeting->until_ns > now_ns ? meeting->until_ns - now_ns : 0;
    return time_ns < left_ns ? time_ns : left_ns;
}

/* All of it in that time. False where it does not come. */
static bool take(int from, void *data, size_t bytes, uint64_t time_ns)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    uint64_t until_ns = clock_now_ns() + time_ns;
    for (size_t got = 0; got < bytes;) {
        int polled = poll(&ready, 1, LOOK_MS);
        if (clock_now_ns() >= until_ns || (polled < 0 && errno != EINTR))
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

/* Connecting and sending end in time, too. */
static void limit(int made)
{
    const struct timeval time = {.tv_sec = HELLO_NS / CLOCK_NS_PER_S};
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static bool give(int to, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t count = send(to, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
        if (count <= 0)
            return false;
        sent += (size_t)count;
    }
    return true;
}

static struct hello hello_of(const struct meeting *meeting)
{
    return (struct hello){.magic = MAGIC,
                          .token = meeting->options->token,
                          .run = meeting->run,
                          .rank = meeting->options->rank,
                          .ranks = meeting->options->ranks,
                          .listens_at = meeting->listens_at};
}

/* The i-th at which the first rank may listen, from 1 on. */
static int port_of(const struct tcp_meet_options *options, int i)
{
    return options->port > UINT16_MAX - TCP_MEET_PORTS ? options->port - i : options->port + i;
}

/* A listener at that port of all of this machine's addresses; 0: any. */
static int listen_at(int port, int *ret_listener)
{
    struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int both = 0, on = 1, listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_old = listener < 0; /* without IPv6 */
    if (is_old)
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -errno;
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on,
               sizeof on); /* connections do not keep the port from others */
    int status = is_old ? bind(listener, (struct sockaddr *)&old, sizeof old)
                        : bind(listener, (struct sockaddr *)&address, sizeof address);
    if (status || listen(listener, SOMAXCONN)) {
        status = -errno;
        close(listener);
        return status;
    }
    *ret_listener = listener;
    return 0;
}

static int open_listener(struct meeting *meeting, struct err *err)
{
    int status = -EADDRINUSE;
    if (meeting->options->rank > 0)
        status = listen_at(0, &meeting->listener);
    for (int i = 1; i <= TCP_MEET_PORTS && meeting->options->rank == 0 && status == -EADDRINUSE; i++)
        status = listen_at(port_of(meeting->options, i), &meeting->listener);
    if (status && meeting->options->rank == 0)
        return err_errno(err, status, "rank 0 can't listen at any port from %d to %d",
                         port_of(meeting->options, 1), port_of(meeting->options, TCP_MEET_PORTS));
    if (status)
        return err_errno(err, status, "rank %d can't listen", meeting->options->rank);
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    if (getsockname(meeting->listener, (struct sockaddr *)&own, &bytes))
        return err_errno(err, -errno, "rank %d can't listen", meeting->options->rank);
    meeting->listens_at = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                                          : ((struct sockaddr_in *)&own)->sin_port);
    return 0;
}

static int tell_missing(const struct meeting *meeting, struct err *err)
{
    char missing[120] = "";
    size_t used = 0;
    for (int r = 0; r < meeting->options->ranks && used < sizeof missing - 16; r++)
        if (r != meeting->options->rank && meeting->sockets[r] < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "", r);
    err_set(err, -ETIMEDOUT, "rank %d of %d did not find all others by %.100s", meeting->options->rank,
            meeting->options->ranks, meeting->options->address);
    err_found(err, "nothing of rank %s%s%s", missing,
              meeting->accept_status ? "; calls could not be taken: " : "",
              meeting->accept_status ? strerrordesc_np(-meeting->accept_status) : "");
    err_advise(err,
               "start all of them; MASTER_ADDR is to be rank 0's machine as the others see it, and its ports "
               "%d to %d open to them",
               port_of(meeting->options, 1), port_of(meeting->options, TCP_MEET_PORTS));
    return -ETIMEDOUT;
}

/* Somebody of this run, but how many are we? */
static int check_ranks(const struct meeting *meeting, const struct hello *hello, struct err *err)
{
    if (hello->ranks == meeting->options->ranks)
        return 0;
    err_set(err, -EINVAL, "ranks %d and %d were told different numbers of ranks", meeting->options->rank,
            hello->rank);
    err_expected(err, "%d", meeting->options->ranks);
    err_found(err, "%d", hello->ranks);
    err_advise(err, "give all ranks the same WORLD_SIZE");
    return -EINVAL;
}

static bool is_hello(const struct meeting *meeting, const struct hello *hello)
{
    return hello->magic == MAGIC && hello->token == meeting->options->token;
}

static void hang_up(struct caller *caller)
{
    close(caller->socket);
    caller->socket = 0;
}

/* A free place, or that of whoever has called first and said nothing. */
static struct caller *place_for_caller(struct meeting *meeting)
{
    struct caller *first = &meeting->callers[0];
    for (int i = 0; i < CALLERS_MAX; i++) {
        if (meeting->callers[i].socket == 0)
            return &meeting->callers[i];
        if (meeting->callers[i].until_ns < first->until_ns)
            first = &meeting->callers[i];
    }
    hang_up(first);
    return first;
}

static void take_caller(struct meeting *meeting)
{
    struct caller caller = {.until_ns = clock_now_ns() + HELLO_NS};
    socklen_t bytes = sizeof caller.address;
    caller.socket = accept4(meeting->listener, (struct sockaddr *)&caller.address, &bytes, SOCK_CLOEXEC);
    if (caller.socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        meeting->accept_status = -errno; /* it stays at the door, perhaps not for long */
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    if (caller.socket <= 0)
        return;
    limit(caller.socket);
    *place_for_caller(meeting) = caller;
}

/* What it has said; true where that is all. */
static bool hear_caller(struct caller *caller)
{
    ssize_t count = recv(caller->socket, (char *)&caller->hello + caller->got,
                         sizeof caller->hello - caller->got, MSG_DONTWAIT);
    bool has_left = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    caller->got += count > 0 ? (size_t)count : 0;
    if (caller->got == sizeof caller->hello)
        return true;
    if (has_left || clock_now_ns() >= caller->until_ns)
        hang_up(caller);
    return false;
}

/* 1 where it is a rank that is awaited, whose socket now stands in sockets; else hung up on: 0, or -EINVAL of one of this run that can't be. */
static int judge_caller(struct meeting *meeting, struct caller *caller, struct err *err)
{
    const struct hello own = hello_of(meeting), *hello = &caller->hello;
    bool is_ours = is_hello(meeting, hello) && hello->rank > meeting->options->rank &&
                   hello->listens_at > 0 && hello->listens_at <= UINT16_MAX &&
                   (meeting->options->rank == 0 || hello->run == meeting->run);
    bool is_told = is_ours && give(caller->socket, &own, sizeof own);
    int status = is_ours ? check_ranks(meeting, hello, err) : 0;
    if (status || !is_told || hello->rank >= hello->ranks) {
        hang_up(caller);
        return status;
    }
    if (meeting->sockets[hello->rank] >= 0) /* it has called again */
        close(meeting->sockets[hello->rank]);
    meeting->sockets[hello->rank] = caller->socket;
    caller->socket = 0;
    return 1;
}

/* Somebody of this run calls: what it said, and its socket stands in sockets. Nobody else holds that up. */
static int accept_one(struct meeting *meeting, struct hello *ret_hello, struct sockaddr_storage *ret_address,
                      struct err *err)
{
    while (!is_late(meeting)) {
        struct pollfd fds[CALLERS_MAX + 1] = {{.fd = meeting->listener, .events = POLLIN}};
        for (int i = 0; i < CALLERS_MAX; i++) {
            int caller = meeting->callers[i].socket;
            fds[i + 1] = (struct pollfd){.fd = caller > 0 ? caller : -1, .events = POLLIN};
        }
        poll(fds, CALLERS_MAX + 1, LOOK_MS);
        for (int i = 0; i < CALLERS_MAX; i++) {
            struct caller *caller = &meeting->callers[i];
            int judged = caller->socket > 0 && hear_caller(caller) ? judge_caller(meeting, caller, err) : 0;
            if (judged < 0)
                return judged;
            if (judged == 0)
                continue;
            *ret_hello = caller->hello;
            *ret_address = caller->address;
            return 0;
        }
        if (fds[0].revents & POLLIN)
            take_caller(meeting);
    }
    return tell_missing(meeting, err);
}

/* Those who called and left again are awaited anew. */
static void forget_left(struct meeting *meeting)
{
    char byte;
    for (int r = meeting->options->rank + 1; r < meeting->options->ranks; r++)
        if (meeting->sockets[r] >= 0 && recv(meeting->sockets[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            close(meeting->sockets[r]);
            meeting->sockets[r] = -1;
        }
}

static bool has_all_above(const struct meeting *meeting)
{
    for (int r = meeting->options->rank + 1; r < meeting->options->ranks; r++)
        if (meeting->sockets[r] < 0)
            return false;
    return true;
}

static void set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

/* The first rank: hears all, and then tells all. */
static int gather_places(struct meeting *meeting, struct err *err)
{
    int ranks = meeting->options->ranks, status = 0;
    if (getrandom(&meeting->run, sizeof meeting->run, 0) != sizeof meeting->run)
        return err_errno(err, -errno, "no random number");
    while (!has_all_above(meeting)) {
        struct hello hello;
        struct sockaddr_storage address;
        status = accept_one(meeting, &hello, &address, err);
        if (status)
            return status;
        set_port(&address, hello.listens_at);
        meeting->places[hello.rank].address = address;
        forget_left(meeting);
    }
    const struct hello own = hello_of(meeting);
    for (int r = 1; r < ranks; r++)
        if (!give(meeting->sockets[r], &own, sizeof own) ||
            !give(meeting->sockets[r], meeting->places, (size_t)ranks * sizeof *meeting->places))
            return err_set(err, -ECONNABORTED, "rank %d left before all had come", r);
    return 0;
}

/* -1 where nobody answers. */
static int call(const struct sockaddr *address, socklen_t bytes)
{
    int made = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0)
        limit(made);
    if (made >= 0 && connect(made, address, bytes)) {
        close(made);
        made = -1;
    }
    return made;
}

/* Of the first rank, at one of its ports. 0: hellos were exchanged; -EAGAIN: not yet there; -EINVAL. */
static int call_first(struct meeting *meeting, const struct addrinfo *found, int port, struct err *err)
{
    const struct hello own = hello_of(meeting);
    struct hello hello;
    struct sockaddr_storage address;
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    set_port(&address, port);
    int made = call((struct sockaddr *)&address, found->ai_addrlen);
    bool is_ours = made >= 0 && give(made, &own, sizeof own) &&
                   take(made, &hello, sizeof hello, time_for(meeting, ANSWER_NS)) &&
                   is_hello(meeting, &hello) && hello.rank == 0;
    int status = is_ours ? check_ranks(meeting, &hello, err) : -EAGAIN;
    if (!status)
        meeting->sockets[0] = made;
    else if (made >= 0)
        close(made);
    return status;
}

/* It goes on when all have come. */
static bool hear_first(struct meeting *meeting)
{
    struct hello hello = {0};
    size_t bytes = (size_t)meeting->options->ranks * sizeof *meeting->places;
    if (take(meeting->sockets[0], &hello, sizeof hello, time_for(meeting, UINT64_MAX)) &&
        is_hello(meeting, &hello) && take(meeting->sockets[0], meeting->places, bytes, ANSWER_NS)) {
        meeting->run = hello.run;
        return true;
    }
    close(meeting->sockets[0]);
    meeting->sockets[0] = -1;
    return false;
}

static int find_first(struct meeting *meeting, const struct addrinfo *all, struct err *err)
{
    while (!is_late(meeting)) {
        for (const struct addrinfo *found = all; found; found = found->ai_next)
            for (int i = 1; i <= TCP_MEET_PORTS; i++) {
                int status = call_first(meeting, found, port_of(meeting->options, i), err);
                if (status == -EINVAL || (!status && hear_first(meeting)))
                    return status;
            }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return tell_missing(meeting, err);
}

static int ask_places(struct meeting *meeting, struct err *err)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int code = getaddrinfo(meeting->options->address, NULL, &wanted, &all);
    if (code) {
        err_set(err, -EINVAL, "the first rank's address can't be found: %s", gai_strerror(code));
        err_found(err, "%.200s", meeting->options->address);
        return -EINVAL;
    }
    int status = find_first(meeting, all, err);
    freeaddrinfo(all);
    return status;
}

/* Those below it; then those above it call. */
static int connect_others(struct meeting *meeting, struct err *err)
{
    const struct hello own = hello_of(meeting);
    struct hello hello;
    int status = 0;
    for (int r = 1; r < meeting->options->rank; r++) {
        const struct sockaddr *address = (const struct sockaddr *)&meeting->places[r].address;
        if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
            return err_set(err, -EPROTO, "rank 0 does not know where rank %d is", r);
        int made = call(address, address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                : sizeof(struct sockaddr_in));
        if (made < 0)
            return err_errno(err, -errno, "rank %d can't be reached by rank %d", r, own.rank);
        meeting->sockets[r] = made;
        if (!give(made, &own, sizeof own) || !take(made, &hello, sizeof hello, ANSWER_NS) ||
            !is_hello(meeting, &hello) || hello.run != meeting->run || hello.rank != r)
            return err_set(err, -ECONNABORTED, "rank %d left before all had come", r);
    }
    while (!status && !has_all_above(meeting)) {
        struct sockaddr_storage address;
        status = accept_one(meeting, &hello, &address, err);
    }
    return status;
}

/* For what comes. A rank's machine that vanishes is missed in a minute where nothing is sent to it; else see tcp_peer_is_lost. */
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
    struct meeting meeting = {.options = options,
                              .until_ns = clock_now_ns() + options->timeout_ns,
                              .listener = -1,
                              .sockets = ret_sockets};
    assert(options->ranks > 1 && options->rank >= 0 && options->rank < options->ranks);
    assert(options->ranks <= TCP_MEET_RANKS_MAX);
    for (int r = 0; r < options->ranks; r++)
        ret_sockets[r] = -1;
    meeting.places = calloc((size_t)options->ranks, sizeof *meeting.places);
    int status = meeting.places ? 0 : err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    if (!status)
        status = open_listener(&meeting, err);
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
    for (int i = 0; i < CALLERS_MAX; i++)
        if (meeting.callers[i].socket > 0)
            hang_up(&meeting.callers[i]);
    if (meeting.listener >= 0)
        close(meeting.listener);
    free(meeting.places);
    return status;
}
