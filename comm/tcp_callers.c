/*
 * tcp_callers — who calls: a listener, and callers side by side, of whom nothing is read but a
 * hello. See tcp_meeting.h.
 */
#include "comm/tcp_meeting.h"

#include <errno.h>
#include <netdb.h>
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

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static void stop_listening(struct tcp_meeting *meeting)
{
    while (meeting->listeners_count > 0)
        close(meeting->listeners[--meeting->listeners_count].socket);
}

static bool listens_at_address(const struct tcp_meeting *meeting,
                               const struct sockaddr_storage *address)
{
    for (int i = 0; i < meeting->listeners_count; i++)
        if (memcmp(&meeting->listeners[i].address, address, sizeof *address) == 0)
            return true;
    return false;
}

/* One more listener, at a port of an address; port 0: any. The address has no port. */
static int listen_at(struct tcp_meeting *meeting, const struct sockaddr_storage *address, int port)
{
    struct sockaddr_storage own = *address;
    int both = 0, on = 1,
        listener = socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return -errno;
    if (own.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&own)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&own)->sin_port = htons((uint16_t)port);
    if (own.ss_family == AF_INET6)
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    /* connections do not keep the port from others */
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&own, address_bytes(&own)) ||
        listen(listener, SOMAXCONN)) {
        int status = -errno;
        close(listener);
        return status;
    }
    meeting->listeners[meeting->listeners_count].socket = listener;
    meeting->listeners[meeting->listeners_count++].address = *address;
    return 0;
}

/* At all addresses of this machine. */
static int listen_everywhere(struct tcp_meeting *meeting, int port)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6}; /* in6addr_any, which is zero */
    int status = listen_at(meeting, &any, port);
    if (status != -EAFNOSUPPORT)
        return status;
    any.ss_family = AF_INET; /* without IPv6 */
    return listen_at(meeting, &any, port);
}

/* Whether the run is one machine's by the address that was given. Any other name of a loopback
 * address may be one that only rank 0's machine has for itself, while others know it by another
 * address. */
static bool is_one_machine(const struct tcp_meeting *meeting)
{
    const char *address = meeting->options->address;
    return strcmp(address, "localhost") == 0 || strcmp(address, "127.0.0.1") == 0 ||
           strcmp(address, "::1") == 0;
}

/* At that port of those of the addresses that are this machine's own. -EADDRNOTAVAIL: none is, or
 * others know it by another one. */
static int listen_at_own(struct tcp_meeting *meeting, const struct addrinfo *all, int port)
{
    for (const struct addrinfo *found = all; found; found = found->ai_next) {
        struct sockaddr_storage address = {0};
        memcpy(&address, found->ai_addr, found->ai_addrlen);
        if (tcp_meeting_is_loopback(&address) && !is_one_machine(meeting)) {
            stop_listening(meeting);
            return -EADDRNOTAVAIL;
        }
        if (meeting->listeners_count == TCP_LISTENERS_MAX || listens_at_address(meeting, &address))
            continue;
        int status = listen_at(meeting, &address, port);
        if (status && status != -EADDRNOTAVAIL && status != -EAFNOSUPPORT) {
            stop_listening(meeting);
            return status;
        }
    }
    return meeting->listeners_count > 0 ? 0 : -EADDRNOTAVAIL;
}

int tcp_callers_listen(struct tcp_meeting *meeting, struct err *err)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int status = -EADDRINUSE;
    if (getaddrinfo(meeting->options->address, NULL, &wanted, &all))
        all = NULL; /* a name may be known to the others alone */
    for (int i = 1; i <= TCP_MEET_PORTS && status == -EADDRINUSE; i++) {
        int port = tcp_callers_port(meeting->options, i);
        status = listen_at_own(meeting, all, port);
        if (status == -EADDRNOTAVAIL)
            status = listen_everywhere(meeting, port);
        meeting->listens_at = port;
    }
    if (all)
        freeaddrinfo(all);
    if (status)
        return err_errno(err, status, "rank 0 can't listen at any port from %d to %d",
                         tcp_callers_port(meeting->options, 1),
                         tcp_callers_port(meeting->options, TCP_MEET_PORTS));
    return 0;
}

int tcp_callers_listen_beside(struct tcp_meeting *meeting, int connected, struct err *err)
{
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    int rank = meeting->options->rank;
    if (getsockname(connected, (struct sockaddr *)&own, &bytes))
        return err_errno(err, -errno, "rank %d can't listen", rank);
    if (own.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&own)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&own)->sin_port = 0;
    bool is_everywhere = tcp_meeting_is_loopback(&own) && !is_one_machine(meeting);
    if (is_everywhere)
        own = (struct sockaddr_storage){.ss_family = AF_INET6};
    if (listens_at_address(meeting, &own))
        return 0;
    stop_listening(meeting);
    int status = is_everywhere ? listen_everywhere(meeting, 0) : listen_at(meeting, &own, 0);
    if (status)
        return err_errno(err, status, "rank %d can't listen", rank);
    bytes = sizeof own;
    if (getsockname(meeting->listeners[0].socket, (struct sockaddr *)&own, &bytes))
        return err_errno(err, -errno, "rank %d can't listen", rank);
    meeting->listens_at = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                                          : ((struct sockaddr_in *)&own)->sin_port);
    return 0;
}

static void hang_up(struct tcp_caller *caller)
{
    close(caller->socket);
    caller->socket = -1;
}

/* A free place, or that of whoever has called first and said nothing. */
static struct tcp_caller *place_for_caller(struct tcp_meeting *meeting)
{
    struct tcp_caller *first = &meeting->callers[0];
    for (int i = 0; i < TCP_CALLERS_MAX; i++) {
        if (meeting->callers[i].socket < 0)
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

static void take_caller(struct tcp_meeting *meeting, int listener)
{
    struct tcp_caller caller = {.until_ns = clock_now_ns() + TCP_HELLO_NS};
    socklen_t bytes = sizeof caller.address;
    caller.socket = accept4(listener, (struct sockaddr *)&caller.address, &bytes, SOCK_CLOEXEC);
    if (caller.socket < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        meeting->accept_status = -errno; /* it stays at the door, perhaps not for long */
        tcp_meeting_pause(meeting, PAUSE_NS);
    }
    if (caller.socket < 0)
        return;
    tcp_meeting_limit(caller.socket);
    tcp_callers_be_plain(&caller.address);
    *place_for_caller(meeting) = caller;
}

/* What it has said; true where that is all of its hello, or of its proof. */
static bool hear_caller(struct tcp_caller *caller)
{
    size_t all = caller->is_answered ? sizeof(struct tcp_proof) : sizeof(struct tcp_hello);
    ssize_t count =
        recv(caller->socket, caller->heard + caller->got, all - caller->got, MSG_DONTWAIT);
    bool has_left = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    caller->got += count > 0 ? (size_t)count : 0;
    if (caller->got == all)
        return true;
    if (has_left || clock_now_ns() >= caller->until_ns)
        hang_up(caller);
    return false;
}

/* Of its hello: it is answered where it is from a rank of this run that calls this one, else hung
 * up on. */
static void answer_caller(struct tcp_meeting *meeting, struct tcp_caller *caller)
{
    const struct tcp_hello *hello = &caller->hello;
    bool is_ours = tcp_hello_decode(caller->heard, meeting->options->token, &caller->hello) &&
                   hello->rank > meeting->options->rank && hello->listens_at > 0 &&
                   (meeting->options->rank == 0 || hello->run == meeting->run);
    if (!is_ours || tcp_meeting_hello(meeting, &caller->own) ||
        !tcp_meeting_give(caller->socket, &caller->own, sizeof caller->own)) {
        hang_up(caller);
        return;
    }
    caller->is_answered = true;
    caller->got = 0;
    caller->until_ns = clock_now_ns() + TCP_PROOF_NS;
}

/* Of its proof: 1 where it is a rank that is awaited, whose socket now stands in sockets; else hung
 * up on: 0, or -EINVAL of one that was told another number of ranks. */
static int admit_caller(struct tcp_meeting *meeting, struct tcp_caller *caller, struct err *err)
{
    static const struct tcp_proof refusal;
    const struct tcp_hello *hello = &caller->hello;
    struct tcp_proof heard, expected, own;
    memcpy(&heard, caller->heard, sizeof heard);
    int status = tcp_meeting_prove(meeting, TCP_ROLE_CALLER, hello, &caller->own, &expected);
    if (!status)
        status = tcp_meeting_prove(meeting, TCP_ROLE_CALLED, hello, &caller->own, &own);
    if (status) {
        hang_up(caller);
        return err_errno(err, status, "no proof of the ranks' secret");
    }
    bool is_proved = hmac_is_equal(heard.mac, expected.mac);
    if (!is_proved)
        meeting->refused = hello->rank;
    bool is_told = tcp_meeting_give(caller->socket, is_proved ? &own : &refusal, sizeof own);
    if (is_proved)
        status = tcp_meeting_check_ranks(meeting, hello, err);
    if (status || !is_told || !is_proved) {
        hang_up(caller);
        return status;
    }
    if (meeting->sockets[hello->rank] >= 0) /* it has called again */
        close(meeting->sockets[hello->rank]);
    meeting->sockets[hello->rank] = caller->socket;
    caller->socket = -1;
    return 1;
}

/* As far as it has come: as admit_caller. */
static int serve_caller(struct tcp_meeting *meeting, struct tcp_caller *caller, struct err *err)
{
    if (caller->socket < 0 || !hear_caller(caller))
        return 0;
    if (caller->is_answered)
        return admit_caller(meeting, caller, err);
    answer_caller(meeting, caller);
    return 0;
}

/* Those who called and left again are awaited anew. What one sent before it left is for the engine,
 * which sees then that it has left. */
static void forget_left(struct tcp_meeting *meeting)
{
    char byte;
    for (int r = meeting->options->rank + 1; r < meeting->options->ranks; r++) {
        int caller = meeting->sockets[r];
        ssize_t count = caller < 0 ? 1 : recv(caller, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)))
            continue;
        close(caller);
        meeting->sockets[r] = -1;
    }
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

/* Until somebody calls or says something, or it is time to look again. Takes those who call. */
static void await_callers(struct tcp_meeting *meeting)
{
    struct pollfd fds[TCP_LISTENERS_MAX + TCP_CALLERS_MAX];
    int listeners = meeting->listeners_count;
    for (int i = 0; i < listeners; i++)
        fds[i] = (struct pollfd){.fd = meeting->listeners[i].socket, .events = POLLIN};
    for (int i = 0; i < TCP_CALLERS_MAX; i++)
        fds[listeners + i] = (struct pollfd){.fd = meeting->callers[i].socket, .events = POLLIN};
    if (poll(fds, (nfds_t)listeners + TCP_CALLERS_MAX, LOOK_MS) <= 0)
        return;
    for (int i = 0; i < listeners; i++)
        if (fds[i].revents & POLLIN)
            take_caller(meeting, fds[i].fd);
}

int tcp_callers_accept(struct tcp_meeting *meeting, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err)
{
    while (!tcp_meeting_is_over(meeting)) {
        for (int i = 0; i < TCP_CALLERS_MAX; i++) {
            struct tcp_caller *caller = &meeting->callers[i];
            int admitted = serve_caller(meeting, caller, err);
            if (admitted < 0)
                return admitted;
            if (admitted == 0)
                continue;
            *ret_hello = caller->hello;
            *ret_address = caller->address;
            forget_left(meeting);
            return 0;
        }
        int status = check_called(meeting, err);
        if (status)
            return status;
        await_callers(meeting);
        forget_left(meeting);
    }
    return tcp_meeting_tell_over(meeting, err);
}

void tcp_callers_close(struct tcp_meeting *meeting)
{
    for (int i = 0; i < TCP_CALLERS_MAX; i++)
        if (meeting->callers[i].socket >= 0)
            hang_up(&meeting->callers[i]);
    stop_listening(meeting);
}
