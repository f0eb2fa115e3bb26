/*
 * bucket — shared by the files of bucket_exchange.h: a bucket, which transfers one chunk at a time.
 *
 * The bucket copies the data to send to its own memory if necessary (see bucket_packs). Then it
 * starts one all-to-all per piece, or one sum, and delivers the result. Then it is free again.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_H

#include "trainer/parallel/reduction/bucket_exchange.h"

enum bucket_state { BUCKET_FREE, BUCKET_COPYING, BUCKET_SENDING };

struct bucket {
    enum bucket_state state;
    uint64_t group, first; /* elements of the part */
    bool is_last;          /* last chunk of the group */
    struct bucket_exchange_pieces pieces;
    void *send;    /* if bucket_packs: [pieces_max][ranks][chunk_elements] */
    void *receive; /* [received pieces][chunk_elements] */
    /* send and receive have the wire type */
    struct comm_work *works; /* [pieces_max] */
    uint32_t works_count;
    struct device_event *copied; /* the copy to send is done, or the received data is used */
    bool is_used;                /* the event stands for the latter */
};

/* A group with chunks that have not started. */
struct bucket_exchange_waiting {
    uint64_t group, first, end; /* first: next chunk; end: elements of the largest part */
    struct bucket_exchange_pieces pieces;
};

/* Owner thread. */
struct bucket_exchange {
    struct bucket_exchange_options options;
    size_t element_bytes, wire_bytes; /* of the master type; of the wire type */
    /* [received pieces][chunk_elements] in the master type, in device memory, if the wire type
     * differs. */
    void *wide;
    struct bucket buckets[BUCKET_EXCHANGE_BUCKETS];
    /* Numbers of chunks; chunk n uses bucket n % BUCKET_EXCHANGE_BUCKETS. */
    uint64_t started, ended;
    struct bucket_exchange_waiting *waiting; /* ring of waiting_max entries */
    uint64_t waiting_max, waiting_first, waiting_count;
    size_t *offsets[2], *bytes[2];         /* [ranks]: [0] of sends, [1] of receives */
    const void **sources;                  /* [pieces_total_max] */
    char (*labels)[PARTITION_LABEL_BYTES]; /* [groups_count] */
    uint64_t waited_ns;
    int status; /* first failure, with its detail; nothing moves after it */
    struct err detail;
};

/* Size of one element on the wire. */
size_t bucket_wire_bytes(const struct bucket_exchange_options *options);
bool bucket_narrows(const struct bucket_exchange_options *options);
/* Whether sends must be copied: the communicator cannot access the sources, the wire type differs,
 * or the library requires slices of equal size. */
bool bucket_packs(const struct bucket_exchange_options *options);
uint64_t bucket_wide_bytes(const struct bucket_exchange_options *options); /* size of `wide` */
struct span bucket_part(const struct bucket_exchange *exchange, uint64_t group, uint32_t rank);

int bucket_open(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
void bucket_close(struct bucket_exchange *exchange,
                  struct bucket *bucket); /* safe on a zeroed one */
/* Queues the copies to send. */
int bucket_pack(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
/* Call when the copies are done. */
int bucket_send(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);
int bucket_poll(struct bucket_exchange *exchange, struct bucket *bucket, bool blocks,
                bool *ret_done, struct err *err);
/* Passes the chunk to options.received. */
int bucket_deliver(struct bucket_exchange *exchange, struct bucket *bucket, struct err *err);

#endif
