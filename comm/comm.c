/*
 * comm — see comm.h.
 */
#include "comm/comm.h"

#include "base/hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int comm_wait(struct comm *comm, struct comm_work *work, struct err *err)
{
    if (!work->done)
        return comm->ops->wait(work, err);
    return work->status
               ? err_errno(err, work->status, "%s failed on rank %d of %d",
                           work->purpose ? work->purpose : "a collective", comm->rank, comm->ranks)
               : 0;
}

void comm_set_activity(struct comm *comm, const char *activity, uint64_t step, bool may_be_slow)
{
    if (comm->ops->set_activity)
        comm->ops->set_activity(comm, activity, step, may_be_slow);
}

void comm_add_tracks(struct comm *comm, struct trace *trace)
{
    if (comm->ops->add_tracks)
        comm->ops->add_tracks(comm, trace);
}

int comm_check(struct comm *comm, struct err *err)
{
    return comm->ops->check ? comm->ops->check(comm, err) : 0;
}

void comm_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    text[0] = '\0';
    if (comm->ops->describe_library)
        comm->ops->describe_library(comm, text);
}

static int reduce_value(struct comm *comm, int64_t *value, enum comm_i64_op op,
                        const struct comm_options *options, struct err *err)
{
    struct comm_work work = {0};
    int status = comm->ops->all_reduce_i64(comm, value, 1, op, options, &work, err);
    return status ? status : comm_wait(comm, &work, err);
}

int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err)
{
    int64_t unused_value = 0;
    return reduce_value(comm, &unused_value, COMM_SUM, options, err);
}

static int64_t hash_error(const struct err *err)
{
    char line[ERR_LINE_BYTES_MAX];
    err_format(err, line, sizeof line);
    return (int64_t)hash_64(line, strlen(line));
}

int comm_prepare_fast(struct comm *comm, const struct comm_options *options, struct err *err)
{
    struct comm_work work;
    /* one slice per rank, then the sum */
    float *values = calloc((size_t)comm->ranks + 1, sizeof *values);
    if (!values)
        return err_set(err, -ENOMEM, "not enough memory to prepare sums of %d ranks", comm->ranks);
    int status = comm->ops->reduce_scatter(comm, values, values + comm->ranks, 1, DTYPE_F32,
                                           COMM_FAST, options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    if (status)
        comm_retain(values);
    else
        free(values);
    return status;
}

int comm_agree(struct comm *comm, int status, const struct comm_options *options, struct err *err)
{
    int64_t failed =
        status ? comm->ranks - comm->rank : 0; /* the first failed rank has the largest value */
    struct err *detail = status ? NULL : err;  /* err already describes this rank's failure */
    int reduced = reduce_value(comm, &failed, COMM_MAX, options, detail);
    if (reduced)
        return status ? status : reduced;
    if (failed == 0)
        return 0;
    if (failed < 0 || failed > comm->ranks) {
        err_set(detail, -EPROTO, "a rank sent an invalid status");
        return status ? status : -EPROTO;
    }
    int first = comm->ranks - (int)failed;
    int64_t own = status && err ? hash_error(err) : 0, hash = comm->rank == first ? own : 0;
    reduced = reduce_value(comm, &hash, COMM_SUM, options, detail);
    /* The launcher ends all ranks when one exits, so none may before all know the hash. */
    if (!reduced)
        comm_barrier(comm, options, NULL);
    if (!status)
        return reduced ? reduced : err_set(err, -EREMOTEIO, "rank %d failed", first);
    if (!reduced && err && comm->rank != first && own == hash)
        err_set(err, status, "%s", ""); /* the first failed rank prints it */
    return status;
}

struct retained_buffer {
    struct retained_buffer *next;
    void *memory;
};

void comm_retain(void *memory)
{
    /* Process-wide, because the memory outlives communicators. */
    static _Atomic(struct retained_buffer *) first;
    struct retained_buffer *retained = memory ? malloc(sizeof *retained) : NULL;
    if (!retained)
        return; /* out of memory: leak it */
    *retained = (struct retained_buffer){atomic_load(&first), memory};
    while (!atomic_compare_exchange_weak(&first, &retained->next, retained))
        ;
}

void comm_close(struct comm *comm)
{
    if (comm)
        comm->ops->close(comm);
}
