/*
 * param_gather — what ranks hold of a group in pieces becomes whole on each of them: parts become
 * shards, shards become the group.
 *
 *     // this rank's own piece is at its place in buffer
 *     param_gather_begin(&gather, group, PARAM_GATHER_SHARDS, buffer, element_bytes, err);
 *     param_gather_wait(&gather, group, err);  // the others' are at theirs
 *
 * Begun ones go on side by side and beside the computation. All ranks begin the same ones in the
 * same order. Where device memory is not the host's, and the communicator takes only that, bytes
 * pass through pinned memory.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H
#define MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

enum param_gather_level {
    /* of a shard of what is trained: among the ranks that hold the same one; buffer is where the
     * shard begins */
    PARAM_GATHER_PARTS,
    /* of a group's weights: among those that hold one copy together; buffer is where the group
     * begins */
    PARAM_GATHER_SHARDS,
};

enum { PARAM_GATHER_SLOTS = 4 };

struct param_gather_options {
    struct comm *comm; /* borrowed; nothing else is done on it */
    struct ops *ops;   /* borrowed */
    struct device_stream
        *stream; /* borrowed: pieces are made, and what was gathered is used, on it */
    const struct partition *partition; /* borrowed */
    uint64_t timeout_ns;               /* of one; 0: none */
    const char *what;                  /* is gathered, in errors: "weights" */
    const char *flight;                /* as in struct comm_options: "gather weights" */
    const bool *
        in_turn; /* borrowed; while it is set, each ends before the call returns. NULL: never set */
};

struct param_gather;

/* Allocates all that it will take. -ENOMEM. Gives the gather. */
int param_gather_open(const struct param_gather_options *options, struct param_gather **ret_gather,
                      struct err *err);
void param_gather_close(
    struct param_gather *gather); /* NULL is fine. What is in progress is let go: see comm.h */

/* Once the writes of this rank's piece are queued. Blocks for the oldest where PARAM_GATHER_SLOTS
 * are in progress. element_bytes: at most a master's. */
int param_gather_begin(struct param_gather *gather, uint64_t group, enum param_gather_level level,
                       void *buffer, size_t element_bytes, struct err *err);
/* Starts and ends what can be, and never blocks. *ret_has_room: nor would the next
 * param_gather_begin. */
int param_gather_pump(struct param_gather *gather, bool *ret_has_room, struct err *err);
/* Blocks until the group's is done, as are those begun before it; what is queued on the stream from
 * then on sees it. Nothing where none is in progress. */
int param_gather_wait(struct param_gather *gather, uint64_t group, struct err *err);
int param_gather_wait_all(struct param_gather *gather, struct err *err);
/* Nothing is in progress: else, after a failure, the buffers may be read and written until the
 * process exits (comm.h). NULL is idle. */
bool param_gather_is_idle(const struct param_gather *gather);

/* How long all that blocked has waited for other ranks. NULL: 0. */
uint64_t param_gather_waited_ns(const struct param_gather *gather);

#endif
