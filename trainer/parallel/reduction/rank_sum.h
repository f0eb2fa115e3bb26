/*
 * rank_sum — sums arrays over ranks in place, without overlapping computation.
 *
 *     rank_sum_open(&sum, &options, err);
 *     rank_sum_connect(&sum, err);                       // collective
 *     // collective, blocking; the same bits on each rank
 *     rank_sum_add(&sum, memory, elements, err);
 *     rank_sum_mean(&sum, memory, elements, err);        // sum / ranks
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_RANK_SUM_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_RANK_SUM_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct rank_sum_options {
    struct comm *comm; /* borrowed; split by rank_sum_connect */
    struct ops *ops;
    uint64_t bucket_bytes;  /* summed at a time */
    uint64_t elements_max;  /* of the largest array */
    uint64_t timeout_ns;    /* per bucket; 0: none */
    const char *purpose;    /* for errors: "gradients" */
    const char *trace_name; /* as in struct comm_options: "sum gradients" */
};

/* Owner thread. */
struct rank_sum {
    struct rank_sum_options options;
    struct comm *comm; /* owned */
    /* Elements of a bucket per rank. */
    uint64_t slice;
    void *bucket, *sum; /* pinned; bucket: all slices; sum: one slice */
    struct device_event *copied;
    bool has_failed; /* operations may still access the memory */
};

int rank_sum_open(struct rank_sum *sum, const struct rank_sum_options *options, struct err *err);
int rank_sum_connect(struct rank_sum *sum, struct err *err);
void rank_sum_close(struct rank_sum *sum); /* safe on a zeroed struct */

/* memory: master type, device or pinned. */
int rank_sum_add(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err);
int rank_sum_mean(struct rank_sum *sum, void *memory, uint64_t elements, struct err *err);

#endif
