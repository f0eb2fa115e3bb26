/*
 * bucket — internal to bucket_exchange: a bucket transfers one chunk at a time.
 *
 * It copies the data to send if necessary, starts one all-to-all per piece or one reduce-scatter,
 * and delivers the result.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_H

#include "trainer/parallel/reduction/bucket_exchange.h"

enum bucket_state { BUCKET_FREE, BUCKET_COPYING, BUCKET_SENDING };

struct bucket {
    enum bucket_state state;
    uint64_t group, first; /* offset in the part, elements */
    bool is_last;
    struct bucket_exchange_pieces pieces;
    void *send;    /* if bucket_needs_packing: [pieces_max][ranks][chunk_elements], wire type */
    void *receive; /* [received pieces][chunk_elements], wire type */
    struct comm_work *works; /* [pieces_max] */
    uint32_t works_count;
    struct device_event *copied; /* records copies to `send`, or reads of `receive` */
    bool records_reads;          /* the event records reads */
};

/* A group with chunks that have not started. */
struct bucket_exchange_queued_group {
    uint64_t group;
    uint64_t first; /* offset of the next chunk in a part */
    uint64_t end;   /* size of the largest part */
    struct bucket_exchange_pieces pieces;
};

/* Owner thread. */
struct bucket_exchange {
    struct bucket_exchange_options options;
    size_t element_bytes, wire_bytes; /* per element: master type, wire type */
    /* [received pieces][chunk_elements], master type, device memory; NULL unless the wire type
     * differs. */
    void *widened;
    struct bucket buckets[BUCKET_EXCHANGE_BUCKETS];
    /* Counts of chunks; chunk n uses bucket n % BUCKET_EXCHANGE_BUCKETS. */
    uint64_t started_count, ended_count;
    struct bucket_exchange_queued_group *queue; /* ring of queue_max entries */
    uint64_t queue_max, queue_first, queue_count;
    size_t *offsets[2], *bytes[2];         /* [ranks]: [0] of sends, [1] of receives */
    const void **sources;                  /* [pieces_total_max] */
    char (*labels)[PARTITION_LABEL_BYTES]; /* [groups_count] */
    uint64_t waited_ns;
    int status; /* first failure; stops the exchange */
    struct err detail;
};

size_t bucket_wire_bytes(const struct bucket_exchange_options *options);
bool bucket_is_narrowed(const struct bucket_exchange_options *options);
/* Whether data is copied before it is sent, because the communicator cannot access the sources, the
 * wire type differs, or the library requires slices of equal size. */
bool bucket_needs_packing(const struct bucket_exchange_options *options);
uint64_t bucket_widened_bytes(const struct bucket_exchange_options *options);
struct span bucket_part(const struct bucket_exchange *exchange, uint64_t group, uint32_t rank);

int bucket_open(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
void bucket_close(struct bucket_exchange *exchange,
                  struct bucket *bucket); /* safe on a zeroed struct */
int bucket_pack(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
/* Call when the copies are done. */
int bucket_send(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
int bucket_poll(struct bucket_exchange *exchange, struct bucket *bucket, bool may_block,
                bool *ret_done, struct err *err);
int bucket_deliver(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);

#endif
