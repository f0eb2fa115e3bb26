/*
 * tcp_callers — who calls: a listener, and callers side by side, of whom nothing is read but a hello. See tcp_meeting.h.
 */
#include "comm/tcp_meeting.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_NS (CLOCK_NS_PER_S / 50)
enum { LOOK_MS = 100 };

/* The i-th at which the first rank may listen, from 1 on. */
int tcp_callers_port(const struct tcp_meet_options *options, int i)
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

int tcp_callers_listen(struct tcp_meeting *meeting, struct err *err)
{
    int status = -EADDRINUSE;
    if (meeting->options->rank > 0)
        status = listen_at(0, &meeting->listener);
    for (int i = 1; i <= TCP_MEET_PORTS && meeting->options->rank == 0 && status == -EADDRINUSE; i++)
        status = listen_at(tcp_callers_port(meeting->options, i), &meeting->listener);
    if (status && meeting->options->rank == 0)
        return err_errno(err, status, "rank 0 can't listen at any port from %d to %d",
                         tcp_callers_port(meeting->options, 1),
                         tcp_callers_port(meeting->options, TCP_MEET_PORTS));
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

static void hang_up(struct tcp_caller *caller)
{
    close(caller->socket);
    caller->socket = 0;
}

/* A free place, or that of whoever has called first and said nothing. */
static struct tcp_caller *place_for_caller(struct tcp_meeting *meeting)
{
    struct tcp_caller *first = &meeting->callers[0];
    for (int i = 0; i < TCP_CALLERS_MAX; i++) {
        if (meeting->callers[i].socket == 0)
            return &meeting->callers[i];
        if (meeting->callers[i].until_ns < first->until_ns)
            first = &meeting->callers[i];
    }
    hang_up(first);
    return first;
}

void tcp_callers_be_plain(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 wrapped = *(const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&wrapped.sin6_addr))
        return;
    struct sockaddr_in *plain = (struct sockaddr_in *)address;
    *plain = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = wrapped.sin6_port};
    memcpy(&plain->sin_addr, &wrapped.sin6_addr.s6_addr[12], sizeof plain->sin_addr);
}

static void take_caller(struct tcp_meeting *meeting)
{
    struct tcp_caller caller = {.until_ns = clock_now_ns() + TCP_HELLO_NS};
    socklen_t bytes = sizeof caller.address;
    caller.socket = accept4(meeting->listener, (struct sockaddr *)&caller.address, &bytes, SOCK_CLOEXEC);
    if (caller.socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        meeting->accept_status = -errno; /* it stays at the door, perhaps not for long */
        tcp_meeting_pause(meeting, PAUSE_NS);
    }
    if (caller.socket <= 0)
        return;
    tcp_meeting_limit(caller.socket);
    tcp_callers_be_plain(&caller.address);
    *place_for_caller(meeting) = caller;
}

/* What it has said; true where that is all. */
static bool hear_caller(struct tcp_caller *caller)
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
static int judge_caller(struct tcp_meeting *meeting, struct tcp_caller *caller, struct err *err)
{
    const struct tcp_hello own = tcp_meeting_hello(meeting), *hello = &caller->hello;
    bool is_ours = tcp_meeting_is_hello(meeting, hello) && hello->rank > meeting->options->rank &&
                   hello->listens_at > 0 && hello->listens_at <= UINT16_MAX &&
                   (meeting->options->rank == 0 || hello->run == meeting->run);
    bool is_told = is_ours && tcp_meeting_give(caller->socket, &own, sizeof own);
    int status = is_ours ? tcp_meeting_check_ranks(meeting, hello, err) : 0;
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

/* Of those that this rank has called, who wait for it: all do until all have met. */
static int check_called(const struct tcp_meeting *meeting, struct err *err)
{
    for (int r = 0; r < meeting->options->rank; r++) {
        struct pollfd called = {.fd = meeting->sockets[r], .events = POLLRDHUP};
        if (poll(&called, 1, 0) > 0)
            return err_set(err, -ECONNABORTED, "rank %d left before all had come", r);
    }
    return 0;
}

int tcp_callers_accept(struct tcp_meeting *meeting, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err)
{
    while (!tcp_meeting_is_over(meeting)) {
        struct pollfd fds[TCP_CALLERS_MAX + 1] = {{.fd = meeting->listener, .events = POLLIN}};
        for (int i = 0; i < TCP_CALLERS_MAX; i++) {
            int caller = meeting->callers[i].socket;
            fds[i + 1] = (struct pollfd){.fd = caller > 0 ? caller : -1, .events = POLLIN};
        }
        poll(fds, TCP_CALLERS_MAX + 1, LOOK_MS);
        for (int i = 0; i < TCP_CALLERS_MAX; i++) {
            struct tcp_caller *caller = &meeting->callers[i];
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
        int status = check_called(meeting, err);
        if (status)
            return status;
    }
    return tcp_meeting_tell_over(meeting, err);
}

void tcp_callers_close(struct tcp_meeting *meeting)
{
    for (int i = 0; i < TCP_CALLERS_MAX; i++)
        if (meeting->callers[i].socket > 0)
            hang_up(&meeting->callers[i]);
    if (meeting->listener >= 0)
        close(meeting->listener);
}
