/*
 * comm_mpi — see comm_mpi.h. mpi_engine moves the messages of engine_comm.h; mpi_fast.h adds the
 * MPI library's sums.
 */
#include "comm/comm_mpi.h"

#include "comm/mpi/mpi_engine.h"
#include "comm/mpi/mpi_fast.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int mpi_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                              enum dtype dtype, enum comm_reduce_order order,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    if (order == COMM_FAST && count > 0)
        return mpi_fast_reduce_scatter(comm, send, receive, count, dtype, options, work, err);
    return engine_comm_reduce_scatter(comm, send, receive, count, dtype, order, options, work, err);
}

static void mpi_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    char name[COMM_MPI_TEXT_BYTES];
    (void)comm;
    snprintf(text, COMM_LIBRARY_BYTES, "%s", comm_mpi_library(name));
}

static void mpi_close(struct comm *comm)
{
    mpi_fast_close(comm);
    engine_comm_close(comm);
}

static const struct comm_ops mpi_ops = {
    ENGINE_COMM_HOOKS,
    .name = "mpi",
    .reduce_scatter = mpi_reduce_scatter,
    .close = mpi_close,
    .describe_library = mpi_describe_library,
};

int comm_mpi_open(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err)
{
    struct engine *engine;
    size_t max = options && options->message_bytes_max ? options->message_bytes_max : 0;
    int status = mpi_engine_open(max < INT_MAX ? max : INT_MAX, &engine, err);
    return status ? status
                  : engine_comm_open(engine, &mpi_ops, sizeof(struct comm_mpi), ret_comm, err);
}

const char *comm_mpi_version(void)
{
    return MILLRACE_VERSION;
}

const char *comm_mpi_library(char text[COMM_MPI_TEXT_BYTES])
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(all, &length);
    snprintf(text, COMM_MPI_TEXT_BYTES, "%.*s", (int)strcspn(all, ",\n"), all);
    return text;
}
