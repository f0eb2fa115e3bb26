/*
 * comm_tcp — see comm_tcp.h. Operations are messages (engine_comm.h) that tcp_engine moves.
 */
#include "comm/tcp/comm_tcp.h"

#include "comm/engine/engine_comm.h"
#include "comm/tcp/tcp_engine.h"
#include "comm/tcp/tcp_rendezvous.h"

#include <errno.h>
#include <stdlib.h>

/* COMM_FAST uses the deterministic sum too. */
static const struct comm_ops tcp_ops = {
    ENGINE_COMM_HOOKS,
    .name = "tcp",
    .reduce_scatter = engine_comm_reduce_scatter,
    .close = engine_comm_close,
};

int comm_tcp_open(const struct tcp_rendezvous_options *options, struct comm **ret_comm,
                  struct err *err)
{
    struct engine *engine;
    int *sockets = calloc((size_t)options->ranks, sizeof *sockets);
    if (!sockets)
        return err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    int status = tcp_rendezvous(options, sockets, err);
    if (!status)
        status = tcp_engine_open(sockets, options->rank, options->ranks, &engine, err);
    free(sockets);
    return status ? status
                  : engine_comm_open(engine, &tcp_ops, sizeof(struct engine_comm), ret_comm, err);
}
