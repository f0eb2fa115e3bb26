/*
 * engine_comm — see engine_comm.h: opening, splitting, waiting, closing.
 */
#include "comm/engine/engine_comm.h"

#include "base/clock.h"
#include "base/os/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_COMM_ID UINT32_MAX
enum { SLOW_NS = 1000000000 }; /* shorter slow activities are ignored */

/* Operations. */

int engine_comm_begin(struct comm *base, const struct comm_options *options, const char *kind,
                      struct engine_op **ret_op, struct err *err)
{
    struct engine_comm *comm = engine_comm_of(base);
    int status = engine_op_acquire(comm->engine, ret_op, err);
    if (status)
        return status;
    struct engine_op *op = *ret_op;
    op->deadline_ns = options ? options->deadline_ns : 0;
    op->trace_name = options && options->trace_name ? options->trace_name : kind;
    op->world_ranks = comm->world_ranks;
    op->ranks = base->ranks;
    snprintf(op->purpose, sizeof op->purpose, "%s",
             options && options->purpose ? options->purpose : kind);
    return 0;
}

int engine_comm_start(struct comm *base, struct engine_op *op, int status,
                      const struct comm_options *options, struct comm_work *work, struct err *err)
{
    if (status) {
        engine_comm_of(base)->sums_in_flight &= ~op->sum_bit;
        engine_op_release(op);
        return err_set(err, status, "out of memory for an exchange of %d ranks", base->ranks);
    }
    *work = (struct comm_work){.comm = base,
                               .state = op,
                               .deadline_ns = op->deadline_ns,
                               .purpose = options ? options->purpose : NULL};
    engine_start(op);
    return 0;
}

static int end_work(struct comm_work *work, struct err *err)
{
    struct engine_op *op = work->state;
    engine_comm_of(work->comm)->sums_in_flight &= ~op->sum_bit;
    work->status = op->status;
    work->done = true;
    work->state = NULL;
    if (op->status && err)
        *err = op->detail;
    engine_op_release(op);
    return work->status;
}

int engine_comm_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (!work->done && engine_is_done(work->state))
        end_work(work, err);
    *ret_done = work->done;
    return work->done ? work->status : 0;
}

/* The engine enforces the deadline. */
int engine_comm_wait(struct comm_work *work, struct err *err)
{
    engine_wait(work->state);
    return end_work(work, err);
}

/* Activity, settings and closing. */

void engine_comm_set_activity(struct comm *comm, const char *activity, uint64_t step,
                              bool may_be_slow)
{
    struct engine *engine = engine_comm_of(comm)->engine;
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&engine->mutex);
    if (engine->activity_may_be_slow && now_ns - engine->activity_since_ns >= SLOW_NS)
        engine->slow_until_ns = now_ns;
    engine->activity = activity;
    engine->activity_step = step;
    engine->activity_may_be_slow = may_be_slow;
    engine->activity_since_ns = now_ns;
    pthread_mutex_unlock(&engine->mutex);
}

void engine_comm_add_tracks(struct comm *comm, struct trace *trace)
{
    struct engine *engine = engine_comm_of(comm)->engine;
    struct trace_track *track = trace_add_track(trace, comm->ops->name, 0);
    pthread_mutex_lock(&engine->mutex);
    engine->next_track = track;
    pthread_mutex_unlock(&engine->mutex);
}

void engine_comm_set_timeout(struct comm *comm, uint64_t timeout_ns)
{
    atomic_store(&engine_comm_of(comm)->engine->timeout_ns, timeout_ns);
}

int engine_comm_check(struct comm *comm, struct err *err)
{
    return engine_check(engine_comm_of(comm)->engine, err);
}

/* Blocks until the other ranks are notified or notifying them fails. */
void engine_comm_abort(struct comm *comm)
{
    struct engine *engine = engine_comm_of(comm)->engine;
    pthread_mutex_lock(&engine->mutex);
    if (!engine->has_ended && !engine->abort_requested) {
        snprintf(engine->reason, sizeof engine->reason, "rank %d aborted it", engine->rank);
        engine->abort_requested = true;
    }
    pthread_mutex_unlock(&engine->mutex);
    engine->ops->wake(engine);
    pthread_mutex_lock(&engine->mutex);
    while (!engine->has_ended)
        pthread_cond_wait(&engine->completion, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

static void free_comm(struct engine_comm *comm)
{
    free(comm->world_ranks);
    free(comm->tags);
    free(comm);
}

void engine_comm_close(struct comm *base)
{
    struct engine_comm *comm = engine_comm_of(base);
    struct engine *engine = comm->engine;
    engine_free_comm_id(engine, comm->id);
    free_comm(comm);
    if (atomic_fetch_sub(&engine->comms_count, 1) == 1)
        engine->ops->close(engine);
}

/* Creates a communicator without ranks. It counts toward the engine's limit until closed. */
static int create_comm(struct engine *engine, unsigned id, int ranks, struct engine_comm **ret_comm,
                       struct err *err)
{
    struct engine_comm *comm = calloc(1, engine->comm_bytes);
    int *world_ranks = calloc((size_t)ranks, sizeof *world_ranks);
    uint64_t *tags = calloc((size_t)ranks, sizeof *tags);
    if (!comm || !world_ranks || !tags) {
        free(comm);
        free(world_ranks);
        free(tags);
        return err_set(err, -ENOMEM, "out of memory for a communicator of %d ranks", ranks);
    }
    *comm = (struct engine_comm){.base = {.ops = engine->comm_ops, .ranks = ranks},
                                 .engine = engine,
                                 .world_ranks = world_ranks,
                                 .tags = tags,
                                 .id = id};
    atomic_fetch_add(&engine->comms_count, 1);
    *ret_comm = comm;
    return 0;
}

static void add_rank(struct engine_comm *comm, int rank, int world_rank, unsigned id)
{
    comm->world_ranks[rank] = world_rank;
    comm->tags[rank] = id * comm->engine->tags_count;
    if (world_rank == comm->engine->rank)
        comm->base.rank = rank;
}

int engine_comm_open(struct engine *engine, const struct comm_ops *ops, size_t comm_bytes,
                     struct comm **ret_comm, struct err *err)
{
    engine->comm_ops = ops;
    engine->comm_bytes = comm_bytes;
    struct engine_comm *comm;
    unsigned id;
    int status = engine_alloc_comm_id(engine, &id, err); /* 0 on all ranks */
    if (!status)
        status = create_comm(engine, id, engine->ranks, &comm, err);
    if (status) {
        engine->ops->close(engine);
        return status;
    }
    for (int r = 0; r < engine->ranks; r++)
        add_rank(comm, r, r, id);
    *ret_comm = &comm->base;
    return 0;
}

/* Splitting. */

/* rank: in the communicator being split. */
struct split_request {
    int32_t color, key, rank;
    uint32_t comm_id;
};

static int compare_requests(const void *a, const void *b)
{
    const struct split_request *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Moves the color's requests to the front, sorted; returns their number. */
static int select_color(struct split_request *requests, int count, int color)
{
    int selected = 0;
    for (int i = 0; i < count; i++)
        if (requests[i].color == color)
            requests[selected++] = requests[i];
    qsort(requests, (size_t)selected, sizeof *requests, compare_requests);
    return selected;
}

static int gather_requests(struct comm *base, struct split_request *requests, struct err *err)
{
    uint64_t timeout_ns = atomic_load(&engine_comm_of(base)->engine->timeout_ns);
    const struct comm_options options = {.deadline_ns =
                                             timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .purpose = "splitting the ranks"};
    struct comm_work work;
    int status = engine_comm_all_gather(base, &requests[base->rank], requests, sizeof *requests,
                                        &options, &work, err);
    return status ? status : engine_comm_wait(&work, err);
}

/* Checks received values before they become an index and tags. */
static int check_requests(struct comm *base, const struct split_request *requests, struct err *err)
{
    const struct engine_comm *comm = engine_comm_of(base);
    for (int r = 0; r < base->ranks; r++) {
        bool is_id =
            requests[r].comm_id < comm->engine->comm_ids_count || requests[r].comm_id == NO_COMM_ID;
        if (requests[r].rank == r && is_id)
            continue;
        err_set(err, -EPROTO,
                "splitting the ranks: rank %d of the run sent an invalid communicator id",
                comm->world_ranks[r]);
        err_expected(err, "rank %d and an id below %u", r, comm->engine->comm_ids_count);
        err_found(err, "rank %" PRId32 " and %" PRIu32, requests[r].rank, requests[r].comm_id);
        err_advise(err, "start the same version of millrace on all ranks");
        return -EPROTO;
    }
    return 0;
}

static int check_ids(const struct split_request *members, int count, struct err *err)
{
    for (int i = 0; i < count; i++)
        if (members[i].comm_id == NO_COMM_ID)
            return err_set(err, -ENOBUFS, "rank %d has %d communicators open", members[i].rank,
                           ENGINE_COMMS_MAX);
    return 0;
}

static int create_split_comm(const struct engine_comm *comm, const struct split_request *members,
                             int count, unsigned id, struct comm **ret_comm, struct err *err)
{
    struct engine_comm *made;
    int status = check_ids(members, count, err);
    if (!status)
        status = create_comm(comm->engine, id, count, &made, err);
    if (status)
        return status;
    for (int i = 0; i < count; i++)
        add_rank(made, i, comm->world_ranks[members[i].rank], members[i].comm_id);
    *ret_comm = &made->base;
    return 0;
}

int engine_comm_split(struct comm *base, int color, int key, struct comm **ret_comm,
                      struct err *err)
{
    struct engine_comm *comm = engine_comm_of(base);
    struct split_request *requests = calloc((size_t)base->ranks, sizeof *requests);
    struct comm *made = NULL;
    unsigned id = NO_COMM_ID; /* signals to the other ranks that no id is free */
    if (!requests)
        return err_set(err, -ENOMEM, "not enough memory to split %d ranks", base->ranks);
    engine_alloc_comm_id(comm->engine, &id, NULL);
    requests[base->rank] = (struct split_request){color, key, base->rank, id};
    int status = gather_requests(base, requests, err);
    if (status) {
        comm_retain(requests);
        requests = NULL;
    }
    if (!status)
        status = check_requests(base, requests, err);
    int count = status || color < 0 ? 0 : select_color(requests, base->ranks, color);
    if (count > 0)
        status = create_split_comm(comm, requests, count, id, &made, err);
    if (!made && id != NO_COMM_ID)
        engine_free_comm_id(comm->engine, id);
    free(requests);
    if (!status)
        *ret_comm = made;
    return status;
}
