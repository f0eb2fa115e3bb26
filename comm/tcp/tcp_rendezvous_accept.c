/*
 * tcp_rendezvous_accept — see tcp_rendezvous_accept.h.
 */
#include "comm/tcp/tcp_rendezvous_accept.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 100 };

static void stop_listening(struct tcp_rendezvous *rendezvous)
{
    while (rendezvous->listeners_count > 0)
        close(rendezvous->listeners[--rendezvous->listeners_count].socket);
}

static bool has_listener(const struct tcp_rendezvous *rendezvous,
                         const struct sockaddr_storage *address)
{
    for (int i = 0; i < rendezvous->listeners_count; i++)
        if (memcmp(&rendezvous->listeners[i].address, address, sizeof *address) == 0)
            return true;
    return false;
}

/* Ignores the port in address. port 0: any. */
static int listen_on(struct tcp_rendezvous *rendezvous, const struct sockaddr_storage *address,
                     int port)
{
    struct sockaddr_storage own = *address;
    int v6_only = 0, on = 1,
        listener = socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return -errno;
    tcp_address_set_port(&own, port);
    if (own.ss_family == AF_INET6)
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    /* Connections of an earlier process must not block the port. */
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&own, tcp_address_bytes(&own)) ||
        listen(listener, SOMAXCONN)) {
        int status = -errno;
        close(listener);
        return status;
    }
    rendezvous->listeners[rendezvous->listeners_count].socket = listener;
    rendezvous->listeners[rendezvous->listeners_count++].address = *address;
    return 0;
}

static int listen_everywhere(struct tcp_rendezvous *rendezvous, int port)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6}; /* zero is in6addr_any */
    int status = listen_on(rendezvous, &any, port);
    if (status != -EAFNOSUPPORT)
        return status;
    any.ss_family = AF_INET;
    return listen_on(rendezvous, &any, port);
}

/* Only these names mean loopback on every machine. */
static bool is_standard_loopback(const struct tcp_rendezvous *rendezvous)
{
    const char *address = rendezvous->options->address;
    return strcmp(address, "localhost") == 0 || strcmp(address, "127.0.0.1") == 0 ||
           strcmp(address, "::1") == 0;
}

/* Listens on the addresses that belong to this machine. -EADDRNOTAVAIL: there are none, or other
 * machines may resolve the name differently. */
static int listen_on_own(struct tcp_rendezvous *rendezvous, const struct addrinfo *entries,
                         int port)
{
    for (const struct addrinfo *entry = entries; entry; entry = entry->ai_next) {
        struct sockaddr_storage address = {0};
        memcpy(&address, entry->ai_addr, entry->ai_addrlen);
        if (tcp_address_is_loopback(&address) && !is_standard_loopback(rendezvous)) {
            stop_listening(rendezvous);
            return -EADDRNOTAVAIL;
        }
        if (rendezvous->listeners_count == TCP_LISTENERS_MAX || has_listener(rendezvous, &address))
            continue;
        int status = listen_on(rendezvous, &address, port);
        if (status && status != -EADDRNOTAVAIL && status != -EAFNOSUPPORT) {
            stop_listening(rendezvous);
            return status;
        }
    }
    return rendezvous->listeners_count > 0 ? 0 : -EADDRNOTAVAIL;
}

int tcp_rendezvous_listen(struct tcp_rendezvous *rendezvous, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *entries = NULL;
    int status = -EADDRINUSE;
    if (getaddrinfo(rendezvous->options->address, NULL, &hints, &entries))
        entries = NULL; /* other machines may be able to resolve it */
    for (int i = 1; i <= TCP_RENDEZVOUS_PORTS && status == -EADDRINUSE; i++) {
        int port = tcp_rendezvous_port(rendezvous->options, i);
        status = listen_on_own(rendezvous, entries, port);
        if (status == -EADDRNOTAVAIL)
            status = listen_everywhere(rendezvous, port);
        rendezvous->listen_port = port;
    }
    if (entries)
        freeaddrinfo(entries);
    if (status)
        return err_errno(err, status, "rank 0 cannot listen on any port from %d to %d",
                         tcp_rendezvous_port(rendezvous->options, 1),
                         tcp_rendezvous_port(rendezvous->options, TCP_RENDEZVOUS_PORTS));
    return 0;
}

int tcp_rendezvous_listen_local(struct tcp_rendezvous *rendezvous, int rank0_socket,
                                struct err *err)
{
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    int rank = rendezvous->options->rank;
    if (getsockname(rank0_socket, (struct sockaddr *)&own, &bytes))
        return err_errno(err, -errno, "rank %d cannot listen", rank);
    tcp_address_set_port(&own, 0);
    bool is_everywhere = tcp_address_is_loopback(&own) && !is_standard_loopback(rendezvous);
    if (is_everywhere)
        own = (struct sockaddr_storage){.ss_family = AF_INET6};
    if (has_listener(rendezvous, &own))
        return 0;
    stop_listening(rendezvous);
    int status = is_everywhere ? listen_everywhere(rendezvous, 0) : listen_on(rendezvous, &own, 0);
    if (status)
        return err_errno(err, status, "rank %d cannot listen", rank);
    bytes = sizeof own;
    if (getsockname(rendezvous->listeners[0].socket, (struct sockaddr *)&own, &bytes))
        return err_errno(err, -errno, "rank %d cannot listen", rank);
    rendezvous->listen_port = tcp_address_port(&own);
    return 0;
}

static void close_pending(struct tcp_pending *pending)
{
    close(pending->socket);
    pending->socket = -1;
}

/* If no slot is free, evicts the connection that expires first. */
static struct tcp_pending *find_free_slot(struct tcp_rendezvous *rendezvous)
{
    struct tcp_pending *oldest = &rendezvous->pending[0];
    for (int i = 0; i < TCP_PENDING_MAX; i++) {
        if (rendezvous->pending[i].socket < 0)
            return &rendezvous->pending[i];
        if (rendezvous->pending[i].deadline_ns < oldest->deadline_ns)
            oldest = &rendezvous->pending[i];
    }
    close_pending(oldest);
    return oldest;
}

void tcp_address_unmap_ipv4(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 mapped = *(const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&mapped.sin6_addr))
        return;
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)address;
    *ipv4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = mapped.sin6_port};
    memcpy(&ipv4->sin_addr, &mapped.sin6_addr.s6_addr[12], sizeof ipv4->sin_addr);
}

static void accept_connection(struct tcp_rendezvous *rendezvous, int listener)
{
    struct tcp_pending pending = {.deadline_ns = clock_now_ns() + TCP_HELLO_NS};
    socklen_t bytes = sizeof pending.address;
    pending.socket = accept4(listener, (struct sockaddr *)&pending.address, &bytes, SOCK_CLOEXEC);
    if (pending.socket < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        /* retry: the connection stays in the backlog */
        rendezvous->accept_status = -errno;
        tcp_rendezvous_sleep(rendezvous, TCP_RETRY_NS);
    }
    if (pending.socket < 0)
        return;
    tcp_socket_set_timeout(pending.socket);
    tcp_address_unmap_ipv4(&pending.address);
    *find_free_slot(rendezvous) = pending;
}

/* Does not block. Returns true when the hello or proof is complete. */
static bool receive_pending(struct tcp_pending *pending)
{
    size_t bytes = pending->is_answered ? sizeof(struct tcp_proof) : sizeof(struct tcp_hello);
    ssize_t count = recv(pending->socket, pending->received + pending->received_bytes,
                         bytes - pending->received_bytes, MSG_DONTWAIT);
    bool has_left = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    pending->received_bytes += count > 0 ? (size_t)count : 0;
    if (pending->received_bytes == bytes)
        return true;
    if (has_left || clock_now_ns() >= pending->deadline_ns)
        close_pending(pending);
    return false;
}

/* Answers a valid hello from a higher rank of this run; otherwise closes the connection. */
static void answer_hello(struct tcp_rendezvous *rendezvous, struct tcp_pending *pending)
{
    const struct tcp_hello *hello = &pending->hello;
    bool is_ours =
        tcp_hello_decode(pending->received, rendezvous->options->token, &pending->hello) &&
        hello->rank > rendezvous->options->rank && hello->listen_port > 0 &&
        (rendezvous->options->rank == 0 || hello->run_id == rendezvous->run_id);
    if (!is_ours || tcp_rendezvous_make_hello(rendezvous, &pending->own) ||
        !tcp_socket_send(pending->socket, &pending->own, sizeof pending->own)) {
        close_pending(pending);
        return;
    }
    pending->is_answered = true;
    pending->received_bytes = 0;
    pending->deadline_ns = clock_now_ns() + TCP_PROOF_NS;
}

/* Returns 1 if the proof is valid and the socket is stored in sockets. Otherwise closes the
 * connection and returns 0, or -EINVAL if the numbers of ranks differ. */
static int verify_proof(struct tcp_rendezvous *rendezvous, struct tcp_pending *pending,
                        struct err *err)
{
    static const struct tcp_proof refusal;
    const struct tcp_hello *hello = &pending->hello;
    struct tcp_proof received, expected, own;
    memcpy(&received, pending->received, sizeof received);
    int status =
        tcp_rendezvous_prove(rendezvous, TCP_ROLE_INITIATOR, hello, &pending->own, &expected);
    if (!status)
        status = tcp_rendezvous_prove(rendezvous, TCP_ROLE_RESPONDER, hello, &pending->own, &own);
    if (status) {
        close_pending(pending);
        return err_errno(err, status, "could not compute the proof of the ranks' secret");
    }
    bool is_proved = hmac_is_equal(received.mac, expected.mac);
    if (!is_proved)
        rendezvous->refused_rank = hello->rank;
    bool is_answered = tcp_socket_send(pending->socket, is_proved ? &own : &refusal, sizeof own);
    if (is_proved)
        status = tcp_rendezvous_check_ranks(rendezvous, hello, err);
    if (status || !is_answered || !is_proved) {
        close_pending(pending);
        return status;
    }
    if (rendezvous->sockets[hello->rank] >= 0) /* the rank reconnected */
        close(rendezvous->sockets[hello->rank]);
    rendezvous->sockets[hello->rank] = pending->socket;
    pending->socket = -1;
    return 1;
}

/* Returns the same as verify_proof. */
static int serve_pending(struct tcp_rendezvous *rendezvous, struct tcp_pending *pending,
                         struct err *err)
{
    if (pending->socket < 0 || !receive_pending(pending))
        return 0;
    if (pending->is_answered)
        return verify_proof(rendezvous, pending, err);
    answer_hello(rendezvous, pending);
    return 0;
}

/* Forgets disconnected ranks so that they can reconnect, except those that sent data for the
 * engine. */
static void drop_disconnected(struct tcp_rendezvous *rendezvous)
{
    char byte;
    for (int r = rendezvous->options->rank + 1; r < rendezvous->options->ranks; r++) {
        int fd = rendezvous->sockets[r];
        ssize_t count = fd < 0 ? 1 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)))
            continue;
        close(fd);
        rendezvous->sockets[r] = -1;
    }
}

/* Lower ranks must stay connected until all ranks are connected. */
static int check_lower_ranks(const struct tcp_rendezvous *rendezvous, struct err *err)
{
    for (int r = 0; r < rendezvous->options->rank; r++) {
        struct pollfd lower = {.fd = rendezvous->sockets[r], .events = POLLRDHUP};
        if (poll(&lower, 1, 0) > 0)
            return err_set(err, -ECONNABORTED, "rank %d left before all ranks had connected", r);
    }
    return 0;
}

/* Waits up to POLL_MS. */
static void poll_connections(struct tcp_rendezvous *rendezvous)
{
    struct pollfd fds[TCP_LISTENERS_MAX + TCP_PENDING_MAX];
    int listeners = rendezvous->listeners_count;
    for (int i = 0; i < listeners; i++)
        fds[i] = (struct pollfd){.fd = rendezvous->listeners[i].socket, .events = POLLIN};
    for (int i = 0; i < TCP_PENDING_MAX; i++)
        fds[listeners + i] = (struct pollfd){.fd = rendezvous->pending[i].socket, .events = POLLIN};
    if (poll(fds, (nfds_t)listeners + TCP_PENDING_MAX, POLL_MS) <= 0)
        return;
    for (int i = 0; i < listeners; i++)
        if (fds[i].revents & POLLIN)
            accept_connection(rendezvous, fds[i].fd);
}

int tcp_rendezvous_accept(struct tcp_rendezvous *rendezvous, struct tcp_hello *ret_hello,
                          struct sockaddr_storage *ret_address, struct err *err)
{
    while (!tcp_rendezvous_should_stop(rendezvous)) {
        for (int i = 0; i < TCP_PENDING_MAX; i++) {
            struct tcp_pending *pending = &rendezvous->pending[i];
            int admitted = serve_pending(rendezvous, pending, err);
            if (admitted < 0)
                return admitted;
            if (admitted == 0)
                continue;
            *ret_hello = pending->hello;
            *ret_address = pending->address;
            drop_disconnected(rendezvous);
            return 0;
        }
        int status = check_lower_ranks(rendezvous, err);
        if (status)
            return status;
        poll_connections(rendezvous);
        drop_disconnected(rendezvous);
    }
    return tcp_rendezvous_stop_error(rendezvous, err);
}

void tcp_rendezvous_stop_accepting(struct tcp_rendezvous *rendezvous)
{
    for (int i = 0; i < TCP_PENDING_MAX; i++)
        if (rendezvous->pending[i].socket >= 0)
            close_pending(&rendezvous->pending[i]);
    stop_listening(rendezvous);
}
