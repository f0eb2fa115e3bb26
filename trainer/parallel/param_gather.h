/*
 * param_gather — gathers the pieces that ranks hold of a group: parts into shards, shards into the
 * group.
 *
 *     // this rank's own piece is at its place in buffer
 *     param_gather_begin(&gather, group, PARAM_GATHER_SHARDS, buffer, element_bytes, err);
 *     param_gather_wait(&gather, group, err);  // the other pieces are at their places
 *
 * Gathers run concurrently and overlap with computation. All ranks begin the same ones in the same
 * order. If the communicator cannot access device memory, bytes pass through pinned memory.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H
#define MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

enum param_gather_level {
    /* Parts of a trained shard, among the ranks that hold the same shard. buffer is the start of
     * the shard. */
    PARAM_GATHER_PARTS,
    /* Shards of a group's weights, among the ranks that hold one copy together. buffer is the start
     * of the group. */
    PARAM_GATHER_SHARDS,
};

enum { PARAM_GATHER_SLOTS = 4 };

struct param_gather_options {
    struct comm *comm;            /* borrowed, for exclusive use */
    struct ops *ops;              /* borrowed */
    struct device_stream *stream; /* Borrowed. It makes the pieces and uses the gathered data. */
    const struct partition *partition; /* borrowed */
    uint64_t timeout_ns;               /* per gather; 0: none */
    const char *what;                  /* name of the data, for errors: "weights" */
    const char *flight;                /* as in struct comm_options: "gather weights" */
    /* Borrowed. While set, each gather completes before the call returns. NULL: never set. */
    const bool *serialized;
};

struct param_gather;

/* Allocates all memory up front. -ENOMEM. The caller owns *ret_gather. */
int param_gather_open(const struct param_gather_options *options, struct param_gather **ret_gather,
                      struct err *err);
/* NULL is fine. Abandons operations in progress: see comm.h. */
void param_gather_close(struct param_gather *gather);

/* Call after queueing the writes of this rank's piece. If PARAM_GATHER_SLOTS are in progress,
 * blocks for the oldest. element_bytes: at most that of the master type. */
int param_gather_begin(struct param_gather *gather, uint64_t group, enum param_gather_level level,
                       void *buffer, size_t element_bytes, struct err *err);
/* Starts and completes what it can; never blocks. *ret_has_room: the next param_gather_begin would
 * not block either. */
int param_gather_pump(struct param_gather *gather, bool *ret_has_room, struct err *err);
/* Blocks until the group's gather and all earlier ones are done; work queued on the stream
 * afterwards sees the result. Does nothing if none is in progress. */
int param_gather_wait(struct param_gather *gather, uint64_t group, struct err *err);
int param_gather_wait_all(struct param_gather *gather, struct err *err);
/* True if nothing is in progress. If not, after a failure, the buffers may be accessed until the
 * process exits (comm.h). NULL is idle. */
bool param_gather_is_idle(const struct param_gather *gather);

/* Total time blocked on other ranks. NULL: 0. */
uint64_t param_gather_waited_ns(const struct param_gather *gather);

#endif
