/*
 * comm_wrapper — wraps a communicator to count its traffic, or to check its calls. Communicators
 * split from a wrapped one are wrapped too; close them first.
 *
 * **Counting.** What a rank sends to itself is not counted. An all-gather sends the same bytes to
 * each other rank; a reduce-scatter sends each its slice. An all-reduce counts its values once each
 * way, however many hops the backend makes.
 *
 * **Checking** finds ranks that make different calls. It is meant for debugging. Before each
 * collective, the ranks exchange the number, size and purpose of the call. If these differ, all
 * ranks fail with -EPROTO instead of hanging or misreading bytes. The error shows the first call
 * that differs from rank 0's. The sizes of an all_to_all may differ between ranks, so they are
 * compared pairwise. The check costs one blocking exchange per call, and two per all_to_all. Ranks
 * whose main threads wait for each other on different communicators also fail, within some seconds
 * (deadlock.h). Not checked: send, receive, and what other threads wait for. As with comm_agree,
 * only the first rank has the detail of a shared error.
 */
#ifndef MILLRACE_COMM_COMM_WRAPPER_H
#define MILLRACE_COMM_COMM_WRAPPER_H

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

/* inner, counts: borrowed. -ENOMEM. */
int comm_counted_open(struct comm *inner, struct comm_counts *counts, struct comm **ret_comm,
                      struct err *err);

/* Collective over the ranks of inner, which is borrowed and must not be used directly meanwhile.
 * timeout_ns: for all ranks to reach a split, whose call has no deadline; 0: none. */
int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err);

#endif
