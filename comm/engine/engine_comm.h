/*
 * engine_comm — communicators on an engine (comm_mpi, comm_tcp).
 *
 * During a split, each rank picks an id for the communicator and sends it to the others. The tag of
 * each message to that rank contains the id. Messages with the same tag arrive in order, so
 * single-round collectives share a tag. The rounds of a deterministic sum may interleave with other
 * messages, so each sum needs its own tag:
 *
 *     id * tags_count + 0                                  collectives
 *                     + 1 .. COMM_DETERMINISTIC_MAX          deterministic sums, in turn
 *                     + 1 + COMM_DETERMINISTIC_MAX + tag     messages
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_COMM_H
#define MILLRACE_COMM_ENGINE_ENGINE_COMM_H

#include "comm/engine/engine.h"

enum {
    ENGINE_TAG_COLLECTIVE = 0,
    ENGINE_TAG_SUM,
    ENGINE_TAG_MESSAGE = ENGINE_TAG_SUM + COMM_DETERMINISTIC_MAX
};

/* Immutable after open, except for sums_in_flight and sums_count. */
struct engine_comm {
    struct comm base;
    struct engine *engine;
    int *world_ranks;        /* [ranks] */
    uint64_t *tags;          /* [ranks]: the first tag of each rank */
    unsigned id;             /* chosen by this rank */
    uint64_t sums_in_flight; /* one bit per tag in use */
    unsigned sums_count;
};

static inline struct engine_comm *engine_comm_of(struct comm *comm)
{
    return (struct engine_comm *)comm;
}

/* Opens the communicator of all ranks. Takes ownership of the engine, even on failure. ops: a
 * static table. comm_bytes: size of the backend's communicator, which embeds engine_comm as its
 * first member; the rest is zeroed. */
int engine_comm_open(struct engine *engine, const struct comm_ops *ops, size_t comm_bytes,
                     struct comm **ret_comm, struct err *err);

/* Returns a blank operation. kind: a static string that names the operation in traces, and in
 * errors if options has no name.
 * -ECONNABORTED: the run has ended. */
int engine_comm_begin(struct comm *comm, const struct comm_options *options, const char *kind,
                      struct engine_op **ret_op, struct err *err);
/* Starts the operation, or releases it if status, the result of planning, is not 0. */
int engine_comm_start(struct comm *comm, struct engine_op *op, int status,
                      const struct comm_options *options, struct comm_work *work, struct err *err);
int engine_comm_plan_send(struct comm *comm, struct engine_op *op, int to, uint64_t tag,
                          const void *data, size_t bytes);
int engine_comm_plan_receive(struct comm *comm, struct engine_op *op, int from, uint64_t tag,
                             void *data, size_t bytes);
/* Plans to send `bytes` bytes (not 0) to every other rank and to receive each rank's data at
 * receive + rank * bytes. */
int engine_comm_plan_gather(struct comm *comm, struct engine_op *op, const void *send,
                            char *receive, size_t bytes);
/* The i-th rank after this one, for i from 1 to ranks - 1. Each rank starts with another peer,
 * which spreads the load. */
static inline int engine_comm_peer(const struct comm *comm, int i)
{
    return (comm->rank + i) % comm->ranks;
}

/* Hooks of comm_ops. */
int engine_comm_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                      struct err *err);
int engine_comm_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err);
int engine_comm_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                           const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                           const size_t *receive_bytes, const struct comm_options *options,
                           struct comm_work *work, struct err *err);
int engine_comm_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                     const struct comm_options *options, struct comm_work *work, struct err *err);
int engine_comm_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                        const struct comm_options *options, struct comm_work *work,
                        struct err *err);
int engine_comm_all_reduce_i64(struct comm *comm, int64_t *values, size_t count,
                               enum comm_i64_op reduce_op, const struct comm_options *options,
                               struct comm_work *work, struct err *err);
/* Always deterministic. */
int engine_comm_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                               enum dtype dtype, enum comm_reduce_order order,
                               const struct comm_options *options, struct comm_work *work,
                               struct err *err);
int engine_comm_test(struct comm_work *work, bool *ret_done, struct err *err);
int engine_comm_wait(struct comm_work *work, struct err *err);
void engine_comm_set_activity(struct comm *comm, const char *activity, uint64_t step,
                              bool may_be_slow);
void engine_comm_add_tracks(struct comm *comm, struct trace *trace);
void engine_comm_set_timeout(struct comm *comm, uint64_t timeout_ns);
int engine_comm_check(struct comm *comm, struct err *err);
void engine_comm_abort(struct comm *comm);
/* Closing the last communicator closes the engine. */
void engine_comm_close(struct comm *comm);

/* Each backend adds name, reduce_scatter, close and optional hooks. */
#define ENGINE_COMM_HOOKS                                                                          \
    .split = engine_comm_split, .all_gather = engine_comm_all_gather,                              \
    .all_reduce_i64 = engine_comm_all_reduce_i64, .all_to_all = engine_comm_all_to_all,            \
    .send = engine_comm_send, .receive = engine_comm_receive, .test = engine_comm_test,            \
    .wait = engine_comm_wait, .set_activity = engine_comm_set_activity,                            \
    .add_tracks = engine_comm_add_tracks, .set_timeout = engine_comm_set_timeout,                  \
    .check = engine_comm_check, .abort = engine_comm_abort

#endif
