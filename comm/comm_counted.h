/*
 * comm_counted — wraps a communicator to count the bytes this rank sends to and receives from
 * others.
 *
 * What a rank sends to itself is not counted. An all-gather sends the same bytes to each other
 * rank. A reduce-scatter sends each its slice. An all-reduce counts its values once each way,
 * however many hops the backend makes.
 */
#ifndef MILLRACE_COMM_COMM_COUNTED_H
#define MILLRACE_COMM_COMM_COUNTED_H

#include "comm/comm.h"

#include <stdatomic.h>

struct comm_traffic {
    uint64_t sent_bytes, received_bytes;
};

/* Totals since they were zeroed, for a communicator and all that were split from it. */
struct comm_counts {
    _Atomic uint64_t sent_bytes, received_bytes;
};

static inline struct comm_traffic comm_counts_read(const struct comm_counts *counts)
{
    return (struct comm_traffic){
        atomic_load_explicit(&counts->sent_bytes, memory_order_relaxed),
        atomic_load_explicit(&counts->received_bytes, memory_order_relaxed)};
}

static inline struct comm_traffic comm_counts_since(const struct comm_counts *counts,
                                                    const struct comm_traffic *before)
{
    const struct comm_traffic now = comm_counts_read(counts);
    return (struct comm_traffic){now.sent_bytes - before->sent_bytes,
                                 now.received_bytes - before->received_bytes};
}

/* inner, counts: borrowed. Communicators split from this one are counted too. */
int comm_counted_open(struct comm *inner, struct comm_counts *counts, struct comm **ret_comm,
                      struct err *err);

#endif
