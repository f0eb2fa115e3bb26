/*
 * bucket_exchange — sends gradients to the ranks that sum them: a chunked all-to-all that overlaps
 * with the backward pass.
 *
 * Each rank contributes pieces of a group's gradients (leaves, or sums of several) and receives all
 * pieces of the part that it sums. This moves as many bytes as a ring reduce-scatter but lets the
 * receiver choose the order of additions. If the order does not matter, the communication library's
 * reduce-scatter replaces the all-to-all.
 *
 *     // the pieces must not change until the exchange is done
 *     bucket_exchange_begin(&exchange, group, &pieces, err);
 *     // call repeatedly: makes progress without blocking
 *     bucket_exchange_pump(&exchange, err);
 *     bucket_exchange_drain(&exchange, err);  // blocks until all exchanges are done
 *
 * Each of BUCKET_EXCHANGE_BUCKETS buckets holds at most chunk_elements of a part. All ranks begin
 * the same groups in the same order. If the communicator cannot access device memory, data is
 * staged in pinned memory.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_EXCHANGE_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_EXCHANGE_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/tree.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUCKET_EXCHANGE_BUCKETS = 4, BUCKET_EXCHANGE_PIECES_MAX = TREE_LEVELS_MAX };

/* A received chunk of a part. Sources are not overwritten until queued reads of them finish. */
struct bucket_exchange_chunk {
    /* `first` is relative to the part. Shorter parts end with empty chunks. */
    uint64_t group, first, elements;
    bool is_last;
    const void *const *sources; /* pieces in rank order, then in each rank's order */
    uint32_t sources_count;
};

/* Returning -errno stops the run. */
typedef int bucket_exchange_on_received(void *context, const struct bucket_exchange_chunk *chunk,
                                        struct err *err);

struct bucket_exchange_options {
    /* Borrowed, for exclusive use. Neither `sums` nor a 16-bit wire type works with device
     * memory. */
    struct comm *comm;
    struct ops *ops; /* borrowed; its stream writes the pieces and reads the chunks */
    const struct partition *partition; /* borrowed */
    uint64_t chunk_elements;
    uint32_t pieces_max;
    uint32_t pieces_total_max; /* over all ranks */
    /* Each rank contributes one piece, and the order of additions does not matter. The
     * communication library then sums the pieces unless the wire type is narrower. */
    bool sums;
    struct bucket_exchange_wire {
        /* DTYPE_BF16 or DTYPE_F16; any other value: the master type. */
        enum dtype type;
        float scale; /* applied before rounding; a power of two */
    } wire;
    uint64_t timeout_ns; /* per chunk; 0: none */
    bucket_exchange_on_received *on_received;
    void *context;
};

/* The pieces of one group. Arrays are borrowed until bucket_exchange_drain. */
struct bucket_exchange_pieces {
    /* this rank's pieces; each points to the start of the group */
    const void *sources[BUCKET_EXCHANGE_PIECES_MAX];
    const uint32_t *counts; /* [ranks]: pieces per rank */
};

struct bucket_exchange;

/* Allocates all memory. The caller owns *ret_exchange. */
int bucket_exchange_open(const struct bucket_exchange_options *options,
                         struct bucket_exchange **ret_exchange, struct err *err);
/* Abandons operations in progress (comm.h). NULL is fine. */
void bucket_exchange_close(struct bucket_exchange *exchange);

/* Call after queueing the writes of the pieces; does not block. A group in progress may be begun
 * again with different pieces. After a failure, these functions keep returning the same error and
 * deliver nothing. */
int bucket_exchange_begin(struct bucket_exchange *exchange, uint64_t group,
                          const struct bucket_exchange_pieces *pieces, struct err *err);
int bucket_exchange_pump(struct bucket_exchange *exchange, struct err *err);
/* Blocks until every exchange whose first piece is `source` has finished reading it. */
int bucket_exchange_wait(struct bucket_exchange *exchange, const void *source, struct err *err);
int bucket_exchange_drain(struct bucket_exchange *exchange, struct err *err);
/* Total time blocked in wait and drain, not hidden by the passes. NULL: 0. */
uint64_t bucket_exchange_waited_ns(const struct bucket_exchange *exchange);
/* False if operations are in progress; after a failure, they may read the pieces until the process
 * exits (comm.h). NULL: true. */
bool bucket_exchange_is_idle(const struct bucket_exchange *exchange);

#endif
