/*
 * comm_mpi — see comm_mpi.h. Opening, splitting, waiting, closing; the operations are in mpi_exchange.c and mpi_reduce.c, which say what is
 * sent and received, and mpi_engine carries them out.
 */
#include "comm/comm_mpi.h"

#include "base/clock.h"
#include "comm/mpi_comm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLLECTIVE = -1 };

/* Waiting. */

static int end_work(struct comm_work *work, struct err *err)
{
    struct mpi_op *op = work->state;
    work->status = op->status;
    work->done = true;
    work->state = NULL;
    if (op->status && err)
        *err = op->detail;
    mpi_engine_give(op->engine, op);
    return work->status;
}

/* The operation's failure is the work's status, as for all backends; test itself can't fail. */
static int mpi_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (!work->done && mpi_engine_is_done(engine_of(mpi_of(work->comm)), work->state))
        end_work(work, err);
    *ret_done = work->done;
    return 0;
}

/* The engine sees to the deadline. */
static int mpi_wait(struct comm_work *work, struct err *err)
{
    mpi_engine_wait(engine_of(mpi_of(work->comm)), work->state);
    return end_work(work, err);
}

/* Life. */

static void mpi_abort(struct comm *comm)
{
    char why[80];
    snprintf(why, sizeof why, "rank %d gave it up", mpi_engine_rank(engine_of(mpi_of(comm))));
    mpi_engine_abort(engine_of(mpi_of(comm)), why);
}

static void mpi_note(struct comm *comm, const char *what, uint64_t step)
{
    mpi_engine_note(engine_of(mpi_of(comm)), what, step);
}

static void mpi_add_tracks(struct comm *comm, struct trace *trace)
{
    mpi_engine_add_track(engine_of(mpi_of(comm)), trace);
}

static int mpi_check_run(struct comm *comm, struct err *err)
{
    return mpi_engine_check(engine_of(mpi_of(comm)), err);
}

static void mpi_tell_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    char name[COMM_MPI_TEXT_BYTES];
    (void)comm;
    snprintf(text, COMM_LIBRARY_BYTES, "%s", comm_mpi_library(name));
}

static void mpi_close(struct comm *base)
{
    struct comm_mpi *comm = mpi_of(base);
    struct shared *shared = comm->shared;
    mpi_reduce_close(comm);
    mpi_engine_forget_context(shared->engine, comm->context);
    free(comm->world_ranks);
    free(comm->tags);
    free(comm);
    if (atomic_fetch_sub(&shared->comms_count, 1) == 1) {
        mpi_engine_close(shared->engine);
        free(shared);
    }
}

static int mpi_split(struct comm *base, int color, int key, struct comm **ret_comm, struct err *err);

static const struct comm_ops mpi_ops = {
    .name = "mpi",
    .split = mpi_split,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .all_reduce_i64 = mpi_all_reduce_i64,
    .all_to_all = mpi_all_to_all,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .wait = mpi_wait,
    .note = mpi_note,
    .add_tracks = mpi_add_tracks,
    .check = mpi_check_run,
    .abort = mpi_abort,
    .close = mpi_close,
    .tell_library = mpi_tell_library,
};

/* With nobody in it. It counts as one of shared's until it is closed. */
static int make_comm(struct shared *shared, int ranks, struct comm_mpi **ret_comm, struct err *err)
{
    struct comm_mpi *comm = calloc(1, sizeof *comm);
    int *world_ranks = calloc((size_t)ranks, sizeof *world_ranks),
        *tags = calloc((size_t)ranks, sizeof *tags);
    if (!comm || !world_ranks || !tags) {
        free(comm);
        free(world_ranks);
        free(tags);
        return err_set(err, -ENOMEM, "out of memory for a communicator of %d ranks", ranks);
    }
    *comm = (struct comm_mpi){.base = {.ops = &mpi_ops, .ranks = ranks},
                              .shared = shared,
                              .world_ranks = world_ranks,
                              .tags = tags,
                              .fast = MPI_COMM_NULL};
    atomic_fetch_add(&shared->comms_count, 1);
    *ret_comm = comm;
    return 0;
}

/* What each rank tells when a communicator is split. */
struct wish {
    int color, key, context;
    int rank; /* of the one that is split */
};

static int compare_wishes(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Those of the color to the front; how many. */
static int select_color(struct wish *wishes, int count, int color)
{
    int selected = 0;
    for (int i = 0; i < count; i++)
        if (wishes[i].color == color)
            wishes[selected++] = wishes[i];
    qsort(wishes, (size_t)selected, sizeof *wishes, compare_wishes);
    return selected;
}

static int gather_wishes(struct comm *base, struct wish *wishes, struct err *err)
{
    struct comm_options options = {.deadline_ns = clock_now_ns() + MPI_COMM_SPLIT_TIMEOUT_NS,
                                   .what = "splitting the ranks"};
    struct comm_work work;
    int status = mpi_all_gather(base, &wishes[base->rank], wishes, sizeof *wishes, &options, &work, err);
    return status ? status : mpi_wait(&work, err);
}

static int mpi_split(struct comm *base, int color, int key, struct comm **ret_comm, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base), *made = NULL;
    struct mpi_engine *engine = engine_of(comm);
    struct wish own = {.color = color, .key = key, .rank = base->rank};
    struct wish *wishes = calloc((size_t)base->ranks, sizeof *wishes);
    int status = wishes ? mpi_engine_name_context(engine, &own.context, err)
                        : err_set(err, -ENOMEM, "out of memory to split %d ranks", base->ranks);
    if (status)
        goto out;
    wishes[base->rank] = own;
    status = gather_wishes(base, wishes, err);
    if (status) {
        comm_retain(wishes);
        wishes = NULL;
    }
    int count = status || color < 0 ? 0 : select_color(wishes, base->ranks, color);
    if (count > 0)
        status = make_comm(comm->shared, count, &made, err);
    if (!made) {
        mpi_engine_forget_context(engine, own.context);
        goto out;
    }
    made->context = own.context;
    for (int i = 0; i < count; i++) {
        made->world_ranks[i] = comm->world_ranks[wishes[i].rank];
        made->tags[i] = mpi_engine_tag(engine, wishes[i].context, COLLECTIVE);
        if (wishes[i].rank == base->rank)
            made->base.rank = i;
    }
out:
    free(wishes);
    if (!status)
        *ret_comm = made ? &made->base : NULL;
    return status;
}

int comm_mpi_open(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err)
{
    struct comm_mpi *comm;
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return err_set(err, -ENOMEM, "out of memory for a communicator");
    size_t most = options && options->message_bytes_max ? options->message_bytes_max : 0;
    int status = mpi_engine_open(most < INT_MAX ? most : INT_MAX, &shared->engine, err);
    if (status)
        goto out;
    status = make_comm(shared, mpi_engine_ranks(shared->engine), &comm, err);
    if (!status)
        status =
            mpi_engine_name_context(shared->engine, &comm->context, err); /* the first name, on all ranks */
    if (status) {
        mpi_engine_close(shared->engine);
        goto out;
    }
    comm->base.rank = mpi_engine_rank(shared->engine);
    for (int r = 0; r < comm->base.ranks; r++) {
        comm->world_ranks[r] = r;
        comm->tags[r] = mpi_engine_tag(shared->engine, comm->context, COLLECTIVE);
    }
    *ret_comm = &comm->base;
    return 0;
out:
    free(shared);
    return status;
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
