/*
 * param_gather — gathers a group's pieces from the ranks: parts into a shard, or shards into the
 * group.
 *
 *     // buffer contains this rank's piece
 *     param_gather_begin(&gather, group, PARAM_GATHER_SHARDS, buffer, element_bytes, err);
 *     param_gather_wait(&gather, group, err);  // buffer is complete
 *
 * Gathers overlap with each other and with computation. All ranks begin the same gathers in the
 * same order. If the communicator cannot access device memory, data is staged in pinned memory.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H
#define MILLRACE_TRAINER_PARALLEL_PARAM_GATHER_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

enum param_gather_level {
    /* Gathers a trained shard from the ranks that hold it. buffer: start of the shard. */
    PARAM_GATHER_PARTS,
    /* Gathers a group's weights from the ranks of a shard group. buffer: start of the group. */
    PARAM_GATHER_SHARDS,
};

enum { PARAM_GATHER_SLOTS = 4 };

struct param_gather_options {
    struct comm *comm;                 /* borrowed, for exclusive use */
    struct ops *ops;                   /* borrowed */
    struct device_stream *stream;      /* borrowed; writes the pieces, reads the gathered data */
    const struct partition *partition; /* borrowed */
    uint64_t timeout_ns;               /* per gather; 0: none */
    const char *purpose;               /* for errors: "weights" */
    const char *trace_name;            /* as in struct comm_options: "gather weights" */
    /* Borrowed. While true, param_gather_begin blocks until the gather is done. NULL: false. */
    const bool *serialized;
};

struct param_gather;

/* Allocates all memory. The caller owns *ret_gather. */
int param_gather_open(const struct param_gather_options *options, struct param_gather **ret_gather,
                      struct err *err);
/* Abandons operations in progress (comm.h). NULL is fine. */
void param_gather_close(struct param_gather *gather);

/* Call after queueing the writes of this rank's piece. Waits for the oldest gather if
 * PARAM_GATHER_SLOTS are in progress. element_bytes: at most the master type's size. */
int param_gather_begin(struct param_gather *gather, uint64_t group, enum param_gather_level level,
                       void *buffer, size_t element_bytes, struct err *err);
/* Makes progress without blocking. *ret_has_free_slot: param_gather_begin would not block. */
int param_gather_pump(struct param_gather *gather, bool *ret_has_free_slot, struct err *err);
/* Blocks until the group's gather and all earlier ones are done; work queued on the stream
 * afterwards sees the result. */
int param_gather_wait(struct param_gather *gather, uint64_t group, struct err *err);
int param_gather_wait_all(struct param_gather *gather, struct err *err);
/* False if operations are in progress; after a failure, they may access the buffers until the
 * process exits (comm.h). NULL: true. */
bool param_gather_is_idle(const struct param_gather *gather);

/* Total time blocked on other ranks. NULL: 0. */
uint64_t param_gather_waited_ns(const struct param_gather *gather);

#endif
