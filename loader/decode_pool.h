/*
 * decode_pool — the worker threads that verify samples and decode them into the batch, with their
 * queue of items.
 *
 *     reader -> queue of items -> [workers] -> slot complete -> consumer
 *
 * Files: decode_stage.c runs the pool, item.c decodes a sample, substitute.c replaces a bad one,
 * mixup_batch.c mixes a batch's images.
 *
 * The loader's mutex guards the fields marked G. A lock of the pool's own would gain nothing: a
 * worker finishes one group of items, which changes slots, and takes the next in one critical
 * section.
 */
#ifndef MILLRACE_LOADER_DECODE_POOL_H
#define MILLRACE_LOADER_DECODE_POOL_H

#include "base/os/trace.h"
#include "image/pipeline/pipeline.h"
#include "loader/slots.h"

#include <pthread.h>

enum {
    LOADER_WORKERS_MAX = 256,
    LOADER_SUBSTITUTES_MAX = 8, /* candidates tried for a bad sample */
    LOADER_GROUP_ITEMS = 16,    /* small items that a worker takes together */
};

/* An item that has been read and waits for a worker. */
struct load_work {
    struct load_slot *slot;
    uint32_t item;
};

/* Used by its thread only, except where marked. */
struct load_worker {
    struct loader *loader;
    pthread_t thread;
    /* one waiter: before 2.41, glibc may lose signals to several (its bug 25847) */
    pthread_cond_t wake;
    bool is_asleep;                  /* G */
    struct load_worker *next_idle;   /* G */
    struct image_pipeline *pipeline; /* LOADER_IMAGE */
    uint8_t *picture;                /* of the target size, for mixing images */
    atomic_uint_least64_t jpeg_warnings;
    struct io_queue *queue;    /* for substitutes, opened when first needed */
    struct view_piece *pieces; /* pieces_max, for a substitute */
    struct trace_track *track; /* NULL: no trace */
    uint8_t *scratch;          /* for a substitute's bytes */
    uint64_t scratch_bytes;
};

struct decode_pool {
    /* Immutable after open. */
    struct load_worker *workers;
    uint32_t workers_count, workers_started;
    uint32_t group_items; /* the most that a worker takes together */
    struct mixup *mixup;  /* NULL: images are not mixed */
    uint32_t work_capacity;

    struct load_work *work;         /* G: a ring of work_capacity */
    uint64_t work_first, work_next; /* G */
    uint32_t decoding;              /* G: items held by workers */
    struct load_worker *idle;       /* G: a stack */
};

/* Allocates the workers and what they decode with; start starts their threads. */
int decode_pool_open(struct loader *loader, struct err *err);
int decode_pool_start(struct loader *loader, struct err *err);
/* Needs the loader's mutex and its stop flag: wakes all workers, so that they end. */
void decode_pool_stop(struct decode_pool *pool);
void decode_pool_join(struct decode_pool *pool);
void decode_pool_close(struct loader *loader); /* safe if open failed */

/* Need the loader's mutex. Queues an item, because it has all its bytes or is already bad. put
 * wakes no worker for it. */
void decode_pool_add(struct decode_pool *pool, struct load_slot *slot, uint32_t item);
void decode_pool_put(struct decode_pool *pool, struct load_slot *slot, uint32_t item);
/* Takes the next items of one slot from a nonempty queue, LOADER_GROUP_ITEMS at most. Each must be
 * finished or requeued. */
uint32_t decode_pool_take(struct loader *loader, struct load_work *group);
/* The item is in the batch; its bytes are freed unless the batch points to them. */
void decode_pool_finish(struct loader *loader, const struct load_work *work);
/* Leaves the item to a worker. */
void decode_pool_requeue(struct decode_pool *pool, const struct load_work *work);

/* Decodes one sample, whose pieces have their data, into its place in the batch. -EBADMSG and
 * similar: the sample is bad. */
int item_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                uint32_t count, struct err *err);
/* The same for LOADER_BYTES, on any thread. */
int item_decode_bytes(const struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct shard *shard, const struct view_piece *pieces, uint32_t count,
                      struct err *err);
/* False if the sample's bytes are bad: -EBADMSG, -ENODATA (a truncated file), -ENOTSUP. All other
 * failures (memory, I/O, a missing shard) end the run: with a substitute, the samples delivered
 * would depend on transient disk errors. */
bool item_failure_is_fatal(int status);
/* Finds and decodes another sample in place of a bad one. */
int item_substitute(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                    struct err *err);
/* Mixes the images of a slot whose items are all decoded, and fills in their second labels. */
void mixup_batch_slot(struct load_worker *worker, struct load_slot *slot);

#endif
