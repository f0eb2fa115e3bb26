/*
 * tcp_rendezvous — see tcp_rendezvous.h.
 */
#include "comm/tcp/tcp_rendezvous.h"

#include "comm/tcp/tcp_rendezvous_accept.h"
#include "comm/tcp/tcp_rendezvous_internal.h"

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

/* Returns false on failure, after timeout_ns, or when the rendezvous should stop. */
static bool receive_all(const struct tcp_rendezvous *rendezvous, int fd, void *data, size_t bytes,
                        uint64_t timeout_ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t began_ns = clock_now_ns();
    for (size_t got = 0; got < bytes;) {
        int polled = poll(&ready, 1, POLL_MS);
        if (tcp_rendezvous_should_stop(rendezvous) || clock_now_ns() - began_ns >= timeout_ns ||
            (polled < 0 && errno != EINTR))
            return false;
        if (polled != 1)
            continue;
        ssize_t count = recv(fd, (char *)data + got, bytes - got, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        got += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool has_higher_ranks(const struct tcp_rendezvous *rendezvous)
{
    for (int r = rendezvous->options->rank + 1; r < rendezvous->options->ranks; r++)
        if (rendezvous->sockets[r] < 0)
            return false;
    return true;
}

/* Ranks on rank 0's machine may have connected through a loopback address. Receivers on other
 * machines get the address at which they reached rank 0 instead. */
static bool send_addresses(const struct tcp_rendezvous *rendezvous, int receiver)
{
    struct tcp_hello own;
    struct sockaddr_storage local;
    socklen_t bytes = sizeof local;
    bool is_elsewhere = !tcp_address_is_loopback(&rendezvous->addresses[receiver].address);
    if (tcp_rendezvous_make_hello(rendezvous, &own) ||
        !tcp_socket_send(rendezvous->sockets[receiver], &own, sizeof own) ||
        getsockname(rendezvous->sockets[receiver], (struct sockaddr *)&local, &bytes))
        return false;
    tcp_address_unmap_ipv4(&local);
    for (int r = 0; r < rendezvous->options->ranks; r++) {
        struct tcp_address entry = rendezvous->addresses[r];
        if (r > 0 && is_elsewhere && tcp_address_is_loopback(&entry.address)) {
            int port = tcp_address_port(&entry.address);
            entry.address = local;
            tcp_address_set_port(&entry.address, port);
        }
        if (!tcp_socket_send(rendezvous->sockets[receiver], &entry, sizeof entry))
            return false;
    }
    return true;
}

/* Rank 0 collects all addresses and sends them to all ranks. */
static int gather_addresses(struct tcp_rendezvous *rendezvous, struct err *err)
{
    int ranks = rendezvous->options->ranks, status = 0;
    if (getrandom(&rendezvous->run_id, sizeof rendezvous->run_id, 0) != sizeof rendezvous->run_id)
        return err_errno(err, -errno, "could not get a random number");
    while (!has_higher_ranks(rendezvous)) {
        struct tcp_hello hello;
        struct sockaddr_storage address;
        status = tcp_rendezvous_accept(rendezvous, &hello, &address, err);
        if (status)
            return status;
        tcp_address_set_port(&address, hello.listen_port);
        rendezvous->addresses[hello.rank].address = address;
    }
    for (int r = 1; r < ranks; r++)
        if (!send_addresses(rendezvous, r))
            return err_set(err, -ECONNABORTED, "rank %d left before all ranks had connected", r);
    return 0;
}

/* Returns -1 on failure. */
static int connect_to(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        tcp_socket_set_timeout(fd);
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
static int handshake(const struct tcp_rendezvous *rendezvous, int fd, int rank, struct err *err)
{
    struct tcp_hello own, hello;
    struct tcp_proof proof, expected;
    uint8_t received[sizeof hello];
    int status = tcp_rendezvous_make_hello(rendezvous, &own);
    if (status)
        return err_errno(err, status, "could not get a random number");
    if (!tcp_socket_send(fd, &own, sizeof own) ||
        !receive_all(rendezvous, fd, received, sizeof received, TCP_PROOF_NS) ||
        !tcp_hello_decode(received, own.token, &hello) || hello.rank != rank ||
        (rendezvous->run_id && hello.run_id != rendezvous->run_id))
        return -EAGAIN;
    status = tcp_rendezvous_prove(rendezvous, TCP_ROLE_INITIATOR, &own, &hello, &proof);
    if (!status)
        status = tcp_rendezvous_prove(rendezvous, TCP_ROLE_RESPONDER, &own, &hello, &expected);
    if (status)
        return err_errno(err, status, "could not compute the proof of the ranks' secret");
    if (!tcp_socket_send(fd, &proof, sizeof proof) ||
        !receive_all(rendezvous, fd, &proof, sizeof proof, TCP_PROOF_NS))
        return -EAGAIN;
    if (!hmac_is_equal(proof.mac, expected.mac))
        return secret_error(rank, &own, &hello, err);
    return tcp_rendezvous_check_ranks(rendezvous, &hello, err);
}

/* -EAGAIN: rank 0 does not (yet) listen on this port. */
static int connect_to_rank0(struct tcp_rendezvous *rendezvous, const struct addrinfo *entry,
                            int port, struct err *err)
{
    struct sockaddr_storage address;
    memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    tcp_address_set_port(&address, port);
    int fd = connect_to((struct sockaddr *)&address, entry->ai_addrlen);
    if (fd < 0)
        return -EAGAIN;
    int status = tcp_rendezvous_listen_local(rendezvous, fd, err);
    if (!status)
        status = handshake(rendezvous, fd, 0, err);
    if (status)
        close(fd);
    else
        rendezvous->sockets[0] = fd;
    return status;
}

/* Blocks until rank 0 has all addresses. -EAGAIN: rank 0 left before that. */
static int receive_addresses(struct tcp_rendezvous *rendezvous, struct err *err)
{
    struct tcp_hello hello;
    uint8_t received[sizeof hello];
    int status = -EAGAIN;
    size_t bytes = (size_t)rendezvous->options->ranks * sizeof *rendezvous->addresses;
    void *addresses = malloc(bytes);
    if (!addresses)
        return err_set(err, -ENOMEM, "out of memory for %d ranks", rendezvous->options->ranks);
    if (receive_all(rendezvous, rendezvous->sockets[0], received, sizeof received, UINT64_MAX) &&
        tcp_hello_decode(received, rendezvous->options->token, &hello) &&
        receive_all(rendezvous, rendezvous->sockets[0], addresses, bytes, TCP_PROOF_NS))
        status =
            tcp_addresses_decode(addresses, rendezvous->options->ranks, rendezvous->addresses, err);
    free(addresses);
    if (status) {
        close(rendezvous->sockets[0]);
        rendezvous->sockets[0] = -1;
    } else {
        rendezvous->run_id = hello.run_id;
    }
    return status;
}

/* -EAGAIN: rank 0 was not found. */
static int find_rank0(struct tcp_rendezvous *rendezvous, const struct addrinfo *all,
                      struct err *err)
{
    /* After that, resolve the name again, because its address may change. */
    uint64_t until_ns = clock_now_ns() + RESOLVE_NS;
    while (!tcp_rendezvous_should_stop(rendezvous) && clock_now_ns() < until_ns) {
        for (const struct addrinfo *entry = all; entry; entry = entry->ai_next)
            for (int i = 1; i <= TCP_RENDEZVOUS_PORTS && !tcp_rendezvous_should_stop(rendezvous);
                 i++) {
                int status = connect_to_rank0(rendezvous, entry,
                                              tcp_rendezvous_port(rendezvous->options, i), err);
                if (!status)
                    status = receive_addresses(rendezvous, err);
                if (status != -EAGAIN)
                    return status;
            }
        tcp_rendezvous_sleep(rendezvous, TCP_RETRY_NS);
    }
    return -EAGAIN;
}

/* Retries lookups, because the name and the machine may become available later. */
static int join_ranks(struct tcp_rendezvous *rendezvous, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int code = 0, status = -EAGAIN;
    while (status == -EAGAIN && !tcp_rendezvous_should_stop(rendezvous)) {
        code = getaddrinfo(rendezvous->options->address, NULL, &hints, &all);
        if (code) {
            tcp_rendezvous_sleep(rendezvous, RESOLVE_NS / 5);
            continue;
        }
        status = find_rank0(rendezvous, all, err);
        freeaddrinfo(all);
    }
    if (status != -EAGAIN)
        return status;
    status = tcp_rendezvous_stop_error(rendezvous, err);
    if (code && status == -ETIMEDOUT) {
        err_set(err, -EINVAL, "cannot find the address of the first rank: %s", gai_strerror(code));
        err_found(err, "%.200s", rendezvous->options->address);
        return -EINVAL;
    }
    return status;
}

/* A refused connection means that the rank has left. Other failures may be temporary. */
static int connect_to_lower_rank(struct tcp_rendezvous *rendezvous, int rank, struct err *err)
{
    const struct sockaddr *address = (const struct sockaddr *)&rendezvous->addresses[rank].address;
    socklen_t bytes = tcp_address_bytes(&rendezvous->addresses[rank].address);
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    int status = -ETIMEDOUT;
    for (; !tcp_rendezvous_should_stop(rendezvous) && status != -ECONNREFUSED;
         tcp_rendezvous_sleep(rendezvous, TCP_RETRY_NS)) {
        int fd = connect_to(address, bytes);
        status = fd >= 0                ? handshake(rendezvous, fd, rank, err)
                 : errno == EINPROGRESS ? -ETIMEDOUT
                                        : -errno;
        if (fd >= 0 && !status) {
            rendezvous->sockets[rank] = fd;
            return 0;
        }
        if (fd < 0)
            continue;
        close(fd);
        if (status != -EAGAIN)
            return status;
        status = -ECONNABORTED;
    }
    if (tcp_rendezvous_stop_error(rendezvous, err) == -EINTR)
        return -EINTR;
    getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    err_errno(err, status, "rank %d cannot be reached by rank %d", rank, rendezvous->options->rank);
    err_found(err, "%s port %s", host, port);
    err_advise(err,
               "check whether it has ended; all ports between the machines of a run must be open");
    return status;
}

static int connect_remaining(struct tcp_rendezvous *rendezvous, struct err *err)
{
    struct tcp_hello hello;
    struct sockaddr_storage address;
    int status = 0;
    for (int r = 1; r < rendezvous->options->rank && !status; r++)
        status = connect_to_lower_rank(rendezvous, r, err);
    while (!status && !has_higher_ranks(rendezvous))
        status = tcp_rendezvous_accept(rendezvous, &hello, &address, err);
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
    struct tcp_rendezvous rendezvous = {.options = options,
                                        .deadline_ns = clock_now_ns() + options->timeout_ns,
                                        .refused_rank = -1,
                                        .sockets = ret_sockets};
    assert(options->ranks > 1 && options->rank >= 0 && options->rank < options->ranks);
    assert(options->ranks <= TCP_RANKS_MAX);
    for (int r = 0; r < options->ranks; r++)
        ret_sockets[r] = -1;
    for (int i = 0; i < TCP_PENDING_MAX; i++)
        rendezvous.pending[i].socket = -1;
    rendezvous.addresses = calloc((size_t)options->ranks, sizeof *rendezvous.addresses);
    int status = rendezvous.addresses
                     ? 0
                     : err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    if (!status && options->rank == 0)
        status = tcp_rendezvous_listen(&rendezvous, err);
    if (!status)
        status =
            options->rank == 0 ? gather_addresses(&rendezvous, err) : join_ranks(&rendezvous, err);
    if (!status && options->rank > 0)
        status = connect_remaining(&rendezvous, err);
    for (int r = 0; r < options->ranks; r++) {
        if (ret_sockets[r] < 0)
            continue;
        set_socket_options(ret_sockets[r]);
        if (status) {
            close(ret_sockets[r]);
            ret_sockets[r] = -1;
        }
    }
    tcp_rendezvous_stop_accepting(&rendezvous);
    free(rendezvous.addresses);
    return status;
}
