/*
 * tcp_rendezvous — see tcp_rendezvous.h.
 */
#include "comm/tcp/tcp_rendezvous.h"

#include "comm/tcp/tcp_bootstrap.h"
#include "comm/tcp/tcp_pending.h"

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

#define RESOLVE_NS (5 * CLOCK_NS_PER_S) /* between DNS lookups of rank 0 */
enum { POLL_MS = 100 };

/* Returns false on failure, after time_ns, or when the bootstrap is over. */
static bool receive_all(const struct tcp_bootstrap *bootstrap, int from, void *data, size_t bytes,
                        uint64_t time_ns)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    uint64_t began_ns = clock_now_ns();
    for (size_t got = 0; got < bytes;) {
        int polled = poll(&ready, 1, POLL_MS);
        if (tcp_bootstrap_is_over(bootstrap) || clock_now_ns() - began_ns >= time_ns ||
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

static bool has_higher_ranks(const struct tcp_bootstrap *bootstrap)
{
    for (int r = bootstrap->options->rank + 1; r < bootstrap->options->ranks; r++)
        if (bootstrap->sockets[r] < 0)
            return false;
    return true;
}

/* Ranks on rank 0's machine may have connected through a loopback address. Receivers on other
 * machines get the address at which they reached rank 0 instead. */
static bool send_addresses(const struct tcp_bootstrap *bootstrap, int receiver)
{
    struct tcp_hello own;
    struct sockaddr_storage local;
    socklen_t bytes = sizeof local;
    bool is_elsewhere = !tcp_bootstrap_is_loopback(&bootstrap->addresses[receiver].address);
    if (tcp_bootstrap_hello(bootstrap, &own) ||
        !tcp_bootstrap_send(bootstrap->sockets[receiver], &own, sizeof own) ||
        getsockname(bootstrap->sockets[receiver], (struct sockaddr *)&local, &bytes))
        return false;
    tcp_pending_unmap_ipv4(&local);
    for (int r = 0; r < bootstrap->options->ranks; r++) {
        struct tcp_address entry = bootstrap->addresses[r];
        if (r > 0 && is_elsewhere && tcp_bootstrap_is_loopback(&entry.address)) {
            int port = tcp_bootstrap_port_of(&entry.address);
            entry.address = local;
            tcp_bootstrap_set_port(&entry.address, port);
        }
        if (!tcp_bootstrap_send(bootstrap->sockets[receiver], &entry, sizeof entry))
            return false;
    }
    return true;
}

/* Rank 0 collects all addresses and sends them to all ranks. */
static int gather_addresses(struct tcp_bootstrap *bootstrap, struct err *err)
{
    int ranks = bootstrap->options->ranks, status = 0;
    if (getrandom(&bootstrap->run, sizeof bootstrap->run, 0) != sizeof bootstrap->run)
        return err_errno(err, -errno, "could not get a random number");
    while (!has_higher_ranks(bootstrap)) {
        struct tcp_hello hello;
        struct sockaddr_storage address;
        status = tcp_pending_accept(bootstrap, &hello, &address, err);
        if (status)
            return status;
        tcp_bootstrap_set_port(&address, hello.listen_port);
        bootstrap->addresses[hello.rank].address = address;
    }
    for (int r = 1; r < ranks; r++)
        if (!send_addresses(bootstrap, r))
            return err_set(err, -ECONNABORTED, "rank %d left before all ranks had connected", r);
    return 0;
}

/* Returns -1 on failure. */
static int connect_to(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        tcp_bootstrap_set_timeout(fd);
    if (fd >= 0 && connect(fd, address, bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int secret_error(int rank, const struct tcp_hello *own, const struct tcp_hello *hello,
                        struct err *err)
{
    err_set(err, -EACCES, "ranks %d and %d do not have the same secret", own->rank, rank);
    err_found(err, "%s on rank %d, %s on rank %d", own->has_secret ? "a secret" : "none", own->rank,
              hello->has_secret ? "a secret" : "none", rank);
    err_advise(err, "give all ranks the same " TCP_SECRET_VARIABLE " or " TCP_SECRET_FILE_VARIABLE);
    return -EACCES;
}

/* Exchanges hellos and proofs (tcp_wire.h). -EAGAIN: no answer, or not a rank of this run. -EACCES:
 * the secrets differ. -EINVAL: the numbers of ranks differ. */
static int handshake(const struct tcp_bootstrap *bootstrap, int fd, int rank, struct err *err)
{
    struct tcp_hello own, hello;
    struct tcp_proof proof, expected;
    uint8_t received[sizeof hello];
    int status = tcp_bootstrap_hello(bootstrap, &own);
    if (status)
        return err_errno(err, status, "could not get a random number");
    if (!tcp_bootstrap_send(fd, &own, sizeof own) ||
        !receive_all(bootstrap, fd, received, sizeof received, TCP_PROOF_NS) ||
        !tcp_hello_decode(received, own.token, &hello) || hello.rank != rank ||
        (bootstrap->run && hello.run != bootstrap->run))
        return -EAGAIN;
    status = tcp_bootstrap_prove(bootstrap, TCP_ROLE_INITIATOR, &own, &hello, &proof);
    if (!status)
        status = tcp_bootstrap_prove(bootstrap, TCP_ROLE_RESPONDER, &own, &hello, &expected);
    if (status)
        return err_errno(err, status, "could not compute the proof of the ranks' secret");
    if (!tcp_bootstrap_send(fd, &proof, sizeof proof) ||
        !receive_all(bootstrap, fd, &proof, sizeof proof, TCP_PROOF_NS))
        return -EAGAIN;
    if (!hmac_is_equal(proof.mac, expected.mac))
        return secret_error(rank, &own, &hello, err);
    return tcp_bootstrap_check_ranks(bootstrap, &hello, err);
}

/* -EAGAIN: rank 0 does not listen on this port, or not yet. */
static int connect_rank0(struct tcp_bootstrap *bootstrap, const struct addrinfo *entry, int port,
                         struct err *err)
{
    struct sockaddr_storage address;
    memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    tcp_bootstrap_set_port(&address, port);
    int fd = connect_to((struct sockaddr *)&address, entry->ai_addrlen);
    if (fd < 0)
        return -EAGAIN;
    int status = tcp_pending_listen_local(bootstrap, fd, err);
    if (!status)
        status = handshake(bootstrap, fd, 0, err);
    if (status)
        close(fd);
    else
        bootstrap->sockets[0] = fd;
    return status;
}

/* Blocks until rank 0 has all addresses. -EAGAIN: it left before that. */
static int receive_addresses(struct tcp_bootstrap *bootstrap, struct err *err)
{
    struct tcp_hello hello;
    uint8_t received[sizeof hello];
    int status = -EAGAIN;
    size_t bytes = (size_t)bootstrap->options->ranks * sizeof *bootstrap->addresses;
    void *addresses = malloc(bytes);
    if (!addresses)
        return err_set(err, -ENOMEM, "out of memory for %d ranks", bootstrap->options->ranks);
    if (receive_all(bootstrap, bootstrap->sockets[0], received, sizeof received, UINT64_MAX) &&
        tcp_hello_decode(received, bootstrap->options->token, &hello) &&
        receive_all(bootstrap, bootstrap->sockets[0], addresses, bytes, TCP_PROOF_NS))
        status =
            tcp_addresses_decode(addresses, bootstrap->options->ranks, bootstrap->addresses, err);
    free(addresses);
    if (status) {
        close(bootstrap->sockets[0]);
        bootstrap->sockets[0] = -1;
    } else {
        bootstrap->run = hello.run;
    }
    return status;
}

/* -EAGAIN: rank 0 was not found. */
static int find_rank0(struct tcp_bootstrap *bootstrap, const struct addrinfo *all, struct err *err)
{
    /* After that, resolve the name again, because its address may change. */
    uint64_t until_ns = clock_now_ns() + RESOLVE_NS;
    while (!tcp_bootstrap_is_over(bootstrap) && clock_now_ns() < until_ns) {
        for (const struct addrinfo *entry = all; entry; entry = entry->ai_next)
            for (int i = 1; i <= TCP_RENDEZVOUS_PORTS && !tcp_bootstrap_is_over(bootstrap); i++) {
                int status =
                    connect_rank0(bootstrap, entry, tcp_bootstrap_port(bootstrap->options, i), err);
                if (!status)
                    status = receive_addresses(bootstrap, err);
                if (status != -EAGAIN)
                    return status;
            }
        tcp_bootstrap_pause(bootstrap, TCP_RETRY_NS);
    }
    return -EAGAIN;
}

/* Retries lookups, because the name and the machine may become available later. */
static int join(struct tcp_bootstrap *bootstrap, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int code = 0, status = -EAGAIN;
    while (status == -EAGAIN && !tcp_bootstrap_is_over(bootstrap)) {
        code = getaddrinfo(bootstrap->options->address, NULL, &hints, &all);
        if (code) {
            tcp_bootstrap_pause(bootstrap, RESOLVE_NS / 5);
            continue;
        }
        status = find_rank0(bootstrap, all, err);
        freeaddrinfo(all);
    }
    if (status != -EAGAIN)
        return status;
    status = tcp_bootstrap_over_error(bootstrap, err);
    if (code && status == -ETIMEDOUT) {
        err_set(err, -EINVAL, "cannot find the address of the first rank: %s", gai_strerror(code));
        err_found(err, "%.200s", bootstrap->options->address);
        return -EINVAL;
    }
    return status;
}

/* A refused connection means that the rank has left. Other failures may be temporary. */
static int connect_lower(struct tcp_bootstrap *bootstrap, int rank, struct err *err)
{
    const struct sockaddr *address = (const struct sockaddr *)&bootstrap->addresses[rank].address;
    socklen_t bytes = tcp_bootstrap_address_bytes(&bootstrap->addresses[rank].address);
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    int status = -ETIMEDOUT;
    for (; !tcp_bootstrap_is_over(bootstrap) && status != -ECONNREFUSED;
         tcp_bootstrap_pause(bootstrap, TCP_RETRY_NS)) {
        int fd = connect_to(address, bytes);
        status = fd >= 0                ? handshake(bootstrap, fd, rank, err)
                 : errno == EINPROGRESS ? -ETIMEDOUT
                                        : -errno;
        if (fd >= 0 && !status) {
            bootstrap->sockets[rank] = fd;
            return 0;
        }
        if (fd < 0)
            continue;
        close(fd);
        if (status != -EAGAIN)
            return status;
        status = -ECONNABORTED;
    }
    if (tcp_bootstrap_over_error(bootstrap, err) == -EINTR)
        return -EINTR;
    getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    err_errno(err, status, "rank %d cannot be reached by rank %d", rank, bootstrap->options->rank);
    err_found(err, "%s port %s", host, port);
    err_advise(err,
               "check whether it has ended; all ports between the machines of a run must be open");
    return status;
}

static int connect_remaining(struct tcp_bootstrap *bootstrap, struct err *err)
{
    struct tcp_hello hello;
    struct sockaddr_storage address;
    int status = 0;
    for (int r = 1; r < bootstrap->options->rank && !status; r++)
        status = connect_lower(bootstrap, r, err);
    while (!status && !has_higher_ranks(bootstrap))
        status = tcp_pending_accept(bootstrap, &hello, &address, err);
    return status;
}

/* Keepalive detects a lost machine within a minute if no data is unacknowledged; otherwise see
 * tcp_peer_is_lost. */
static void set_socket_options(int fd)
{
    const int on = 1, idle_s = 15, interval_s = 5, count = 6;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

int tcp_rendezvous(const struct tcp_rendezvous_options *options, int *ret_sockets, struct err *err)
{
    struct tcp_bootstrap bootstrap = {.options = options,
                                      .until_ns = clock_now_ns() + options->timeout_ns,
                                      .refused_rank = -1,
                                      .sockets = ret_sockets};
    assert(options->ranks > 1 && options->rank >= 0 && options->rank < options->ranks);
    assert(options->ranks <= TCP_RANKS_MAX);
    for (int r = 0; r < options->ranks; r++)
        ret_sockets[r] = -1;
    for (int i = 0; i < TCP_PENDING_MAX; i++)
        bootstrap.pending[i].socket = -1;
    bootstrap.addresses = calloc((size_t)options->ranks, sizeof *bootstrap.addresses);
    int status = bootstrap.addresses
                     ? 0
                     : err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    if (!status && options->rank == 0)
        status = tcp_pending_listen(&bootstrap, err);
    if (!status)
        status = options->rank == 0 ? gather_addresses(&bootstrap, err) : join(&bootstrap, err);
    if (!status && options->rank > 0)
        status = connect_remaining(&bootstrap, err);
    for (int r = 0; r < options->ranks; r++) {
        if (ret_sockets[r] < 0)
            continue;
        set_socket_options(ret_sockets[r]);
        if (status) {
            close(ret_sockets[r]);
            ret_sockets[r] = -1;
        }
    }
    tcp_pending_close(&bootstrap);
    free(bootstrap.addresses);
    return status;
}
