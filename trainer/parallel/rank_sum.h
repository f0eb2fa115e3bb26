/*
 * rank_sum — arrays of all ranks added, in place, by the library: for what is summed now and then,
 * with nothing beside it.
 *
 *     rank_sum_open(&sum, &options, err);
 *     rank_sum_connect(&sum, err);                       // collective
 *     // likewise: blocks until memory holds the sum over all ranks, the same bits on each
 *     rank_sum_add(&sum, memory, elements, err);
 *     rank_sum_mean(&sum, memory, elements, err);        // the same, divided by their number
 */
#ifndef MILLRACE_TRAINER_PARALLEL_RANK_SUM_H
#define MILLRACE_TRAINER_PARALLEL_RANK_SUM_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct rank_sum_options {
    struct comm *comm; /* borrowed; a communicator of its own is split from it */
    struct ops *ops;
    uint64_t bucket_bytes; /* added at a time, at most */
    uint64_t elements_max; /* of an array that is added: no bucket is larger */
    uint64_t timeout_ns;   /* of a bucket; 0: none */
    const char *what;      /* is added, in errors: "gradients" */
    const char *flight;    /* as in struct comm_options: "sum gradients" */
};

/* Owner thread. */
struct rank_sum {
    struct rank_sum_options options;
    struct comm *comm;  /* owned */
    uint64_t slice;     /* elements of a bucket that a rank adds; a bucket has one a rank */
    void *bucket, *sum; /* pinned: of slices, of one */
    struct device_event *copied;
    bool has_failed; /* others may still read and write the memory */
};

int rank_sum_open(struct rank_sum *sum, const struct rank_sum_options *options, struct err *err);
int rank_sum_connect(struct rank_sum *sum, struct err *err);
void rank_sum_close(struct rank_sum *sum); /* safe on a zeroed one */

/* memory: master type, of the device or pinned. */
int rank_sum_add(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err);
int rank_sum_mean(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err);

#endif
