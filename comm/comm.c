/*
 * comm — see comm.h. Waiting, and helpers that combine a call and its wait.
 */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAUSE_FIRST_NS = 1000, PAUSE_LAST_NS = 1000000 };

static const char *name_of(const struct comm_work *work)
{
    return work->what ? work->what : "a collective";
}

int comm_wait(struct comm *comm, struct comm_work *work, struct err *err)
{
    long pause_ns = PAUSE_FIRST_NS;
    if (!work->done && comm->ops->wait)
        return comm->ops->wait(work, err);
    while (!work->done) {
        bool done = false;
        int status = comm->ops->test(work, &done, err);
        if (status)
            return status;
        if (done)
            break;
        if (work->deadline_ns && clock_now_ns() >= work->deadline_ns) {
            err_set(err, -ETIMEDOUT, "rank %d of %d waited too long for %s", comm->rank,
                    comm->ranks, name_of(work));
            err_advise(
                err,
                "look for the rank that stopped or is slow; raise the timeout if it is only slow");
            return -ETIMEDOUT;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns * 2 < PAUSE_LAST_NS ? pause_ns * 2 : PAUSE_LAST_NS;
    }
    if (work->status)
        return err_errno(err, work->status, "%s failed on rank %d of %d", name_of(work), comm->rank,
                         comm->ranks);
    return 0;
}

static int reduce_one(struct comm *comm, int64_t *value, enum comm_i64_op op,
                      const struct comm_options *options, struct err *err)
{
    struct comm_work work = {0};
    int status = comm->ops->all_reduce_i64(comm, value, 1, op, options, &work, err);
    return status ? status : comm_wait(comm, &work, err);
}

int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err)
{
    int64_t nothing = 0;
    return reduce_one(comm, &nothing, COMM_SUM, options, err);
}

static int64_t hash_of(const struct err *err)
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
        return err_set(err, -ENOMEM, "out of memory to prepare sums of %d ranks", comm->ranks);
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
    struct err *detail = status ? NULL : err;  /* err already describes this rank's own failure */
    int reduced = reduce_one(comm, &failed, COMM_MAX, options, detail);
    if (reduced)
        return status ? status : reduced;
    if (failed == 0)
        return 0;
    if (failed < 0 || failed > comm->ranks) {
        err_set(detail, -EPROTO, "a rank sent an invalid status");
        return status ? status : -EPROTO;
    }
    int first = comm->ranks - (int)failed;
    int64_t own = status && err ? hash_of(err) : 0, told = comm->rank == first ? own : 0;
    reduced = reduce_one(comm, &told, COMM_SUM, options, detail);
    if (!status)
        return reduced ? reduced : err_set(err, -EREMOTEIO, "rank %d failed", first);
    if (!reduced && err && comm->rank != first && own == told)
        err_set(err, status, "%s", ""); /* the first rank prints it */
    return status;
}

struct retained {
    struct retained *next;
    void *memory;
};

void comm_retain(void *memory)
{
    static _Atomic(struct retained *) first;
    struct retained *retained = memory ? malloc(sizeof *retained) : NULL;
    if (!retained)
        return; /* not freed in either case */
    *retained = (struct retained){atomic_load(&first), memory};
    while (!atomic_compare_exchange_weak(&first, &retained->next, retained))
        ;
}

void comm_close(struct comm *comm)
{
    if (comm)
        comm->ops->close(comm);
}
