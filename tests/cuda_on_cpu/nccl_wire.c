/*
 * nccl_wire — see nccl_wire.h. Each rank listens on a name in the abstract namespace and connects
 * to the lower ranks.
 */
#include "tests/cuda_on_cpu/nccl_wire.h"

#include "tests/cuda_on_cpu/violation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 1000000, POLL_MS = 20 };

struct nccl_wire {
    int rank, ranks;
    int *sockets; /* [ranks]; -1: none */
};

static struct sockaddr_un address_of(uint64_t comm_id, int rank, socklen_t *ret_bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                          "millrace-nccl-%016" PRIx64 "-%d", comm_id, rank);
    *ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return address;
}

/* Connects to a rank, retrying until it listens. */
static int connect_to_rank(uint64_t comm_id, int own, int rank, const atomic_bool *stop)
{
    socklen_t bytes;
    struct sockaddr_un address = address_of(comm_id, rank, &bytes);
    while (!atomic_load(stop)) {
        int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made < 0)
            return -1;
        if (connect(made, (struct sockaddr *)&address, bytes) == 0 &&
            write(made, &own, sizeof own) == sizeof own)
            return made;
        close(made);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return -1;
}

static int accept_one(struct nccl_wire *wire, int listener, const atomic_bool *stop)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    int rank, made = -1;
    while (made < 0) {
        if (atomic_load(stop))
            return -1;
        if (poll(&ready, 1, POLL_MS) == 1)
            made = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (recv(made, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= wire->rank ||
        rank >= wire->ranks || wire->sockets[rank] >= 0) {
        close(made);
        return -1;
    }
    wire->sockets[rank] = made;
    return 0;
}

static int listen_for_rank(uint64_t comm_id, int rank)
{
    socklen_t bytes;
    struct sockaddr_un address = address_of(comm_id, rank, &bytes);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 &&
        (bind(listener, (struct sockaddr *)&address, bytes) || listen(listener, 64))) {
        close(listener);
        return -1;
    }
    return listener;
}

static int connect_all(struct nccl_wire *wire, uint64_t comm_id, const atomic_bool *stop)
{
    int listener = listen_for_rank(comm_id, wire->rank);
    int status = listener < 0 ? -1 : 0;
    for (int r = 0; r < wire->rank && !status; r++) {
        wire->sockets[r] = connect_to_rank(comm_id, wire->rank, r, stop);
        status = wire->sockets[r] < 0 ? -1 : 0;
    }
    for (int r = wire->rank + 1; r < wire->ranks && !status; r++)
        status = accept_one(wire, listener, stop);
    for (int r = 0; r < wire->ranks && !status; r++)
        if (r != wire->rank)
            fcntl(wire->sockets[r], F_SETFL, O_NONBLOCK);
    if (listener >= 0)
        close(listener);
    return status;
}

int nccl_wire_open(uint64_t comm_id, int rank, int ranks, const atomic_bool *stop,
                   struct nccl_wire **ret_wire)
{
    struct nccl_wire *wire = calloc(1, sizeof *wire);
    int *sockets = calloc((size_t)ranks, sizeof *sockets);
    if (!wire || !sockets)
        abort(); /* tests do not handle allocation failure */
    for (int r = 0; r < ranks; r++)
        sockets[r] = -1;
    *wire = (struct nccl_wire){rank, ranks, sockets};
    if (connect_all(wire, comm_id, stop)) {
        nccl_wire_close(wire);
        return -1;
    }
    *ret_wire = wire;
    return 0;
}

/* Discards received bytes until the other rank leaves, closes or is gone. */
static void drain_until_end(int other)
{
    struct pollfd ready = {.fd = other, .events = POLLIN};
    char dropped[4096];
    for (;;) {
        ssize_t got = recv(other, dropped, sizeof dropped, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return;
        if (got < 0)
            poll(&ready, 1, POLL_MS);
    }
}

void nccl_wire_leave(struct nccl_wire *wire)
{
    for (int r = 0; wire && r < wire->ranks; r++)
        if (r != wire->rank)
            shutdown(wire->sockets[r], SHUT_WR);
    for (int r = 0; wire && r < wire->ranks; r++)
        if (r != wire->rank)
            drain_until_end(wire->sockets[r]);
}

void nccl_wire_close(struct nccl_wire *wire)
{
    if (!wire)
        return;
    for (int r = 0; r < wire->ranks; r++)
        if (wire->sockets[r] >= 0)
            close(wire->sockets[r]);
    free(wire->sockets);
    free(wire);
}

static bool is_done(const struct nccl_move *move)
{
    return move->done_bytes == sizeof move->header + move->bytes;
}

/* Whether move i is the first unfinished one of its peer and direction. */
static bool is_next_for_peer(const struct nccl_move *moves, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (moves[k].peer == moves[i].peer && moves[k].is_send == moves[i].is_send &&
            !is_done(&moves[k]))
            return false;
    return !is_done(&moves[i]);
}

/* Moves as much as possible without blocking. Returns 1 if it made progress, 0 if not, -1 on
 * failure. */
static int push_move(struct nccl_wire *wire, struct nccl_move *move)
{
    int other = wire->sockets[move->peer];
    bool in_length = move->done_bytes < sizeof move->header;
    char *data = in_length ? (char *)&move->header + move->done_bytes
                           : move->data + (move->done_bytes - sizeof move->header);
    size_t left = in_length ? sizeof move->header - move->done_bytes
                            : sizeof move->header + move->bytes - move->done_bytes;
    ssize_t moved =
        move->is_send ? send(other, data, left, MSG_NOSIGNAL) : recv(other, data, left, 0);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (moved <= 0)
        return -1;
    move->done_bytes += (size_t)moved;
    if (move->done_bytes == sizeof move->header && !move->is_send && move->header != move->bytes)
        shim_violation("NCCL: rank %d sends %" PRIu64 " bytes where rank %d receives %zu",
                       move->peer, move->header, wire->rank, move->bytes);
    return 1;
}

/* Waits until a socket of the next moves is ready. */
static void wait_any(const struct nccl_wire *wire, const struct nccl_move *moves, size_t count)
{
    struct pollfd *ready = calloc(count, sizeof *ready);
    nfds_t used = 0;
    if (!ready)
        abort();
    for (size_t i = 0; i < count; i++)
        if (is_next_for_peer(moves, i))
            ready[used++] = (struct pollfd){.fd = wire->sockets[moves[i].peer],
                                            .events = moves[i].is_send ? POLLOUT : POLLIN};
    poll(ready, used, POLL_MS);
    free(ready);
}

int nccl_wire_move(struct nccl_wire *wire, struct nccl_move *moves, size_t count,
                   const atomic_bool *stop)
{
    size_t left = count;
    for (size_t i = 0; i < count; i++)
        if (moves[i].is_send)
            moves[i].header = moves[i].bytes;
    while (left > 0) {
        bool moved = false;
        left = 0;
        for (size_t i = 0; i < count; i++) {
            int pushed = is_next_for_peer(moves, i) ? push_move(wire, &moves[i]) : 0;
            if (pushed < 0 || atomic_load(stop))
                return -1;
            moved = moved || pushed;
            left += !is_done(&moves[i]);
        }
        if (!moved && left > 0)
            wait_any(wire, moves, count);
    }
    return 0;
}
