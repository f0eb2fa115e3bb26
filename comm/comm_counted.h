/*
 * comm_counted — a communicator over another one that counts the bytes that this rank gives to
 * others and gets from them.
 *
 * What a rank gives to itself is not counted. An all-gather gives the same bytes to each other
 * rank; a reduce-scatter gives each of them its slice; an all-reduce counts its values once each
 * way, however many hops a backend makes of it.
 */
#ifndef MILLRACE_COMM_COMM_COUNTED_H
#define MILLRACE_COMM_COMM_COUNTED_H

#include "comm/comm.h"

#include <stdatomic.h>

struct comm_traffic {
    uint64_t sent_bytes, received_bytes;
};

/* Since they were zeroed, of a communicator and all that were split from it. */
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

/* inner, counts: borrowed. What is split from it is counted too. */
int comm_counted_open(struct comm *inner, struct comm_counts *counts, struct comm **ret_comm,
                      struct err *err);

#endif
