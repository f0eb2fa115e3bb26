/*
 * bucket — what the files of exchange share: a bucket, through which a chunk goes, and what is
 * done with it. See exchange.h.
 *
 * Its sends are copied to memory of its own (where they must: see bucket_packs), an all-to-all a
 * piece or one sum is started, and what comes is handed over; then the bucket is free.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_BUCKET_H
#define MILLRACE_TRAINER_PARALLEL_BUCKET_H

#include "trainer/parallel/bucket_exchange.h"

enum bucket_state { BUCKET_FREE, BUCKET_COPYING, BUCKET_SENDING };

struct bucket {
    enum bucket_state state;
    uint64_t group, first; /* elements of the part */
    bool is_last;          /* chunk of the group */
    struct bucket_exchange_pieces pieces;
    void *send;    /* where bucket_packs: [pieces_max][ranks][chunk_elements] */
    void *receive; /* [pieces that come][chunk_elements] */
    /* both of the type that travels */
    struct comm_work *works; /* [pieces_max] */
    uint32_t works_count;
    struct device_event *copied; /* to send; or what was received is used */
    bool is_used;                /* the event stands for the latter */
};

/* A group that was begun and of which not all chunks have started. */
struct bucket_exchange_waiting {
    uint64_t group, first, end; /* the next chunk; elements of the largest part */
    struct bucket_exchange_pieces pieces;
};

/* Owner thread. */
struct bucket_exchange {
    struct bucket_exchange_options options;
    size_t element_bytes, wire_bytes; /* of the master type; of the one that travels */
    void *
        /* [pieces that come][chunk_elements] of a chunk, where another type travels; device
         * memory */
        wide;
    struct bucket buckets[BUCKET_EXCHANGE_BUCKETS];
    uint64_t started, ended; /* chunks; chunk n uses bucket n % BUCKET_EXCHANGE_BUCKETS */
    struct bucket_exchange_waiting *waiting; /* a ring of waiting_max */
    uint64_t waiting_max, waiting_first, waiting_count;
    size_t *offsets[2], *bytes[2];       /* [ranks]: of sends, of receives */
    const void **sources;                /* [pieces_total_max] */
    char (*whats)[PARTITION_WHAT_BYTES]; /* [groups_count] */
    uint64_t waited_ns;
    int status; /* the first failure, and its detail: nothing moves after it */
    struct err detail;
};

/* Must sends be copied: where the communicator can't take them from where they lie, another type
 * travels, or the library takes slices of one size? */
size_t
bucket_wire_bytes(const struct bucket_exchange_options *options); /* of an element on its way */
bool bucket_narrows(const struct bucket_exchange_options *options);
bool bucket_packs(const struct bucket_exchange_options *options);
uint64_t bucket_wide_bytes(const struct bucket_exchange_options *options); /* of `wide` */
struct span bucket_part(const struct bucket_exchange *exchange, uint64_t group, uint32_t rank);

int bucket_open(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
void bucket_close(struct bucket_exchange *exchange,
                  struct bucket *bucket); /* safe on a zeroed one */
/* Queues the copies. */
int bucket_pack(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
/* Once they are done. */
int bucket_send(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
int bucket_ask(struct bucket_exchange *exchange, struct bucket *bucket, bool blocks, bool *ret_done,
               struct err *err);
/* To options.received. */
int bucket_deliver(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);

#endif
