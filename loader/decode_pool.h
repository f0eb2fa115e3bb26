/*
 * decode_pool — the worker threads that verify samples and decode them into the batch.
 *
 *     reader -> queue of items -> [workers] -> slot complete -> consumer
 *
 * Files: decode_stage.c runs the pool, item.c decodes a sample, image_decode.c its images,
 * field_decode.c another one of options.fields, field_numbers.c its numbers, field_json.c its JSON,
 * field_image.c what belongs to an image, substitute.c replaces a bad sample, mixup_batch.c mixes
 * images.
 *
 * The loader's mutex guards fields marked G: a worker finishes items, updates their slots and
 * takes the next items in one critical section.
 */
#ifndef MILLRACE_LOADER_DECODE_POOL_H
#define MILLRACE_LOADER_DECODE_POOL_H

#include "base/os/trace.h"
#include "image/formats/png.h"
#include "image/pipeline/pipeline.h"
#include "loader/slots.h"

#include <pthread.h>

enum {
    LOADER_WORKERS_MAX = 256,
    LOADER_SUBSTITUTES_MAX = 8,  /* candidates per bad sample */
    LOADER_GROUP_ITEMS_MAX = 16, /* small items that a worker takes at once */
};

struct json_t;

struct load_work {
    struct load_slot *slot;
    uint32_t item;
};

/* Owned by its thread, except fields marked G. */
struct load_worker {
    struct loader *loader;
    pthread_t thread;
    /* One waiter per condition, because glibc before 2.41 may lose signals if there are several
     * (glibc bug 25847). */
    pthread_cond_t wake;
    bool is_asleep;                  /* G */
    struct load_worker *next_idle;   /* G */
    struct image_pipeline *pipeline; /* LOADER_IMAGE only */
    /* Of fields with a geometry of their own, by number of field; NULL: there are none. */
    struct image_pipeline **field_pipelines;
    uint8_t *picture; /* a target image, to be mixed or normalized; loader_picture_bytes_max */
    atomic_uint_least64_t jpeg_warnings;
    struct io_queue *queue;    /* of substitutes and sample_reader; opened on first use */
    struct view_piece *pieces; /* of the item being decoded */
    struct trace_track *track; /* or NULL */
    /* JSON field of the item being decoded, and its text, if it was parsed; else NULL */
    struct json_t *document;
    const uint8_t *document_text;
    struct png_decoder png;      /* of labels */
    struct pixels_memory labels; /* decoded */
    /* Scratch of field_numbers.c and field_image.c, which grows to the largest sample. */
    struct pixels_memory numbers, kept_boxes;
    struct bpe_encoder **encoders; /* by number of field (field_tokens.c) */
    struct str tokens;             /* of a text */
    struct str json;               /* of a value (field_json.c) */
    uint8_t *scratch;              /* a substitute's bytes */
    uint64_t scratch_bytes;
};

struct decode_pool {
    /* Immutable after open. */
    struct load_worker *workers;
    uint32_t workers_count, workers_started;
    uint32_t group_items; /* limit on items that a worker takes at once */
    struct mixup *mixup;  /* or NULL */
    struct normalize normalize;
    struct normalize *field_normalizes; /* by number of field; NULL: no field is normalized */
    uint32_t work_capacity;

    struct load_work *work;         /* G: ring */
    uint64_t work_first, work_next; /* G */
    uint32_t decoding_count;        /* G: items that workers hold */
    struct load_worker *idle;       /* G: stack */
};

int decode_pool_open(struct loader *loader, struct err *err);
int decode_pool_start(struct loader *loader, struct err *err);
/* Requires the loader's mutex and loader.stop. Wakes all workers so that they exit. */
void decode_pool_stop(struct decode_pool *pool);
void decode_pool_join(struct decode_pool *pool);
void decode_pool_close(struct loader *loader); /* safe after a failed open */

/* Both require the loader's mutex and queue an item that is fully read or bad. Only
 * decode_pool_add wakes a worker. */
void decode_pool_add(struct decode_pool *pool, struct load_slot *slot, uint32_t item);
void decode_pool_add_without_wake(struct decode_pool *pool, struct load_slot *slot, uint32_t item);
/* Takes up to LOADER_GROUP_ITEMS_MAX items of one slot from a nonempty queue. The caller finishes
 * or requeues each. */
uint32_t decode_pool_take(struct loader *loader, struct load_work *group);
/* Frees the item's bytes unless the batch points to them. */
void decode_pool_finish(struct loader *loader, const struct load_work *work);
void decode_pool_requeue(struct decode_pool *pool, const struct load_work *work);

/* Decodes a sample from its loaded pieces into the batch. -EBADMSG and similar: bad sample. */
int item_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                uint32_t count, struct err *err);
/* Like item_decode, but for LOADER_BYTES and callable from any thread. */
int item_decode_bytes(const struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct shard *shard, const struct view_piece *pieces, uint32_t count,
                      struct err *err);
/* False if the sample's bytes are bad: -EBADMSG, -ENODATA (truncated file), -ENOTSUP. Other
 * failures end the run, because substituting after a transient error would make runs differ. */
bool item_failure_is_fatal(int status);
/* Sets the error of a bad item, whose reason is noted, that nothing replaces. */
void item_describe_bad(const struct loader *loader, const struct load_slot *slot, uint32_t i,
                       struct err *err);
/* Decodes another sample in place of a bad one. */
int item_substitute(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                    struct err *err);
/* Mixes the images of a decoded slot and fills in their partner labels. */
void mix_slot_images(struct load_worker *worker, struct load_slot *slot);

#endif
