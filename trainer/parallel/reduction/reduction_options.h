/*
 * reduction_options — options of reduction.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_OPTIONS_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_OPTIONS_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/bucket_exchange.h"
#include "trainer/parallel/reduction/powersgd.h"

#include <stdbool.h>
#include <stdint.h>

enum reduction_kind { REDUCTION_CANONICAL, REDUCTION_FAST, REDUCTION_POWERSGD };

struct reduction_options {
    enum reduction_kind kind;
    struct comm *comm; /* borrowed; split by reduction_connect */
    struct ops *ops;
    const struct partition *partition;
    /* Interleaved: gradients are exchanged after each micro-batch. */
    struct batching batching;
    uint64_t bucket_bytes; /* sent at a time, over all parts */
    uint64_t timeout_ns;   /* 0: none */
    /* Type of gradients on the wire; sums are sent in the master type. */
    struct bucket_exchange_wire wire;
    struct powersgd_options powersgd;
    /* Borrowed. While true, each exchange blocks the pass, as comm_checked_open requires: otherwise
     * the order of communication calls depends on timing. NULL: false. */
    const bool *serialized;
    /* Ranks exchange nothing; the partition is that of one rank. */
    bool is_local;
};

/* True if ranks exchange nothing. */
static inline bool reduction_is_local(const struct reduction_options *options)
{
    return options->is_local || options->batching.ranks == 1;
}

static inline bool reduction_exchanges_each_micro_batch(const struct reduction_options *options)
{
    return options->batching.interleaved && !reduction_is_local(options);
}

#endif
