/*
 * tcp_rendezvous_internal — see tcp_rendezvous_internal.h.
 */
#include "comm/tcp/tcp_rendezvous_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

int tcp_rendezvous_port(const struct tcp_rendezvous_options *options, int i)
{
    return options->port > UINT16_MAX - TCP_RENDEZVOUS_PORTS ? options->port - i
                                                             : options->port + i;
}

static bool is_stop_requested(const struct tcp_rendezvous_options *options)
{
    return options->wants_stop && options->wants_stop(options->stop_context);
}

bool tcp_rendezvous_should_stop(const struct tcp_rendezvous *rendezvous)
{
    return clock_now_ns() >= rendezvous->deadline_ns || is_stop_requested(rendezvous->options);
}

void tcp_rendezvous_sleep(const struct tcp_rendezvous *rendezvous, uint64_t time_ns)
{
    uint64_t until_ns = clock_now_ns() + time_ns;
    do
        nanosleep(&(struct timespec){.tv_nsec = TCP_RETRY_NS}, NULL);
    while (!tcp_rendezvous_should_stop(rendezvous) && clock_now_ns() < until_ns);
}

static void describe_missing(const struct tcp_rendezvous *rendezvous, struct err *err)
{
    char missing[120] = "", refused_rank[60] = "";
    size_t used = 0;
    for (int r = 0; r < rendezvous->options->ranks && used < sizeof missing - 16; r++)
        if (r != rendezvous->options->rank && rendezvous->sockets[r] < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     used ? ", " : "", r);
    if (rendezvous->refused_rank >= 0)
        snprintf(refused_rank, sizeof refused_rank, "; rank %d connected without the same secret",
                 rendezvous->refused_rank);
    err_found(err, "nothing from rank %s%s%s%s", missing,
              rendezvous->accept_status ? "; could not accept connections: " : "",
              rendezvous->accept_status ? strerrordesc_np(-rendezvous->accept_status) : "",
              refused_rank);
}

int tcp_rendezvous_stop_error(const struct tcp_rendezvous *rendezvous, struct err *err)
{
    if (is_stop_requested(rendezvous->options)) {
        err_set(err, -EINTR, "rank %d was stopped on request before all ranks had connected",
                rendezvous->options->rank);
        describe_missing(rendezvous, err);
        return -EINTR;
    }
    err_set(err, -ETIMEDOUT, "rank %d of %d did not find all the others through %.100s",
            rendezvous->options->rank, rendezvous->options->ranks, rendezvous->options->address);
    describe_missing(rendezvous, err);
    err_advise(err,
               "start all of them; set MASTER_ADDR to rank 0's machine as the others reach it, and "
               "open its ports %d to %d to them",
               tcp_rendezvous_port(rendezvous->options, 1),
               tcp_rendezvous_port(rendezvous->options, TCP_RENDEZVOUS_PORTS));
    return -ETIMEDOUT;
}

void tcp_socket_set_timeout(int fd)
{
    const struct timeval time = {.tv_sec = TCP_HELLO_NS / CLOCK_NS_PER_S};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

bool tcp_socket_send(int fd, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t count = send(fd, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        sent += (size_t)count;
    }
    return true;
}

int tcp_rendezvous_make_hello(const struct tcp_rendezvous *rendezvous, struct tcp_hello *ret_hello)
{
    const struct tcp_rendezvous_options *options = rendezvous->options;
    *ret_hello = (struct tcp_hello){.magic = TCP_HELLO_MAGIC,
                                    .token = options->token,
                                    .run_id = rendezvous->run_id,
                                    .rank = options->rank,
                                    .ranks = options->ranks,
                                    .listen_port = rendezvous->listen_port,
                                    .has_secret = options->secret && options->secret->bytes > 0};
    /* Small requests are never partially filled. */
    ssize_t count = getrandom(ret_hello->nonce, sizeof ret_hello->nonce, 0);
    return count == (ssize_t)sizeof ret_hello->nonce ? 0 : count < 0 ? -errno : -EIO;
}

int tcp_rendezvous_prove(const struct tcp_rendezvous *rendezvous, enum tcp_role role,
                         const struct tcp_hello *initiator, const struct tcp_hello *responder,
                         struct tcp_proof *ret_proof)
{
    static const struct tcp_secret none;
    const struct tcp_secret *secret = rendezvous->options->secret;
    return tcp_secret_prove(secret ? secret : &none, role, initiator, responder, ret_proof);
}

int tcp_rendezvous_check_ranks(const struct tcp_rendezvous *rendezvous,
                               const struct tcp_hello *hello, struct err *err)
{
    if (hello->ranks == rendezvous->options->ranks)
        return 0;
    err_set(err, -EINVAL, "ranks %d and %d disagree on the number of ranks",
            rendezvous->options->rank, hello->rank);
    err_expected(err, "%d", rendezvous->options->ranks);
    err_found(err, "%d", hello->ranks);
    err_advise(err, "give all ranks the same WORLD_SIZE");
    return -EINVAL;
}

socklen_t tcp_address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

int tcp_address_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

void tcp_address_set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

bool tcp_address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}
