/*
 * comm_wrapper — wraps a communicator to count its traffic or check its calls. Communicators split
 * from it are wrapped too; close them first.
 *
 * **Counting** ignores data that a rank sends to itself. An all-gather counts its data once per
 * other rank, a reduce-scatter one slice per other rank, an all-reduce its values once each way.
 * The backend's algorithm does not matter.
 *
 * **Checking**, for debugging, detects ranks that make different calls. Before each collective, the
 * ranks exchange the number, size and purpose of the call. If these differ, all ranks fail with
 * -EPROTO instead of hanging or misreading data. The error shows the first call that differs from
 * rank 0's. The sizes of an all_to_all are compared pairwise. The check costs one blocking exchange
 * per call, two per all_to_all. Main threads that wait for each other on different communicators
 * also fail, after a few seconds (deadlock.h). send, receive and the waits of other threads are not
 * checked. As with comm_agree, only the first failed rank has the detail of a shared error.
 */
#ifndef MILLRACE_COMM_COMM_WRAPPER_H
#define MILLRACE_COMM_COMM_WRAPPER_H

#include "comm/comm.h"

#include <stdatomic.h>

struct comm_traffic {
    uint64_t sent_bytes, received_bytes;
};

/* Totals over a communicator and all communicators split from it; zeroed by the caller. */
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

/* Collective over inner. Borrows inner for exclusive use. timeout_ns: limits how long a split
 * waits for all ranks; 0: none. */
int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err);

#endif
