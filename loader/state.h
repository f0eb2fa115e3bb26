/*
 * state — shared state of a loader's stages.
 *
 *     plan -> [reader] slot: items, pieces, chunks -> io queue -> ready items
 *     ready items -> [workers] -> batch -> consumer
 *
 * A slot holds a micro-batch while it is assembled, then while the consumer uses it. Micro-batch
 * number n of this loader uses slot n mod slots_count. A chunk is one read: neighboring pieces of a
 * slot in one range of the arena. The memory of a batch's arrays is allocated when its first item
 * is decoded, most recently freed first, so that only as much is touched as holds decoded data at
 * any time.
 *
 * At most ahead_max micro-batches are begun and not yet taken. It starts small and doubles whenever
 * it proved too small: workers were idle because the reader held back, and then the consumer had to
 * wait or polled in vain. While undecoded samples come from the page cache, the limit is
 * ahead_inline, and the reader does the workers' part (inline_decode.c).
 *
 * Access to a slot; ownership changes under `mutex`:
 *     reader       from when the slot is free until an item has all its bytes
 *     worker       an item, from when it is taken from the ready items until it is finished
 *                  (also the reader, when it does a worker's part)
 *     consumer     from delivery to release
 *
 * Locks: `mutex` guards everything marked G below. It is never held together with the shard cache's
 * mutex.
 */
#ifndef MILLRACE_LOADER_STATE_H
#define MILLRACE_LOADER_STATE_H

#include "base/os/trace.h"
#include "image/jpeg/jpeg.h"
#include "image/pipeline/pipeline.h"
#include "loader/loader.h"
#include "loader/parts/plan.h"
#include "loader/parts/read_arena.h"
#include "loader/parts/shard_cache.h"
#include "loader/view.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    LOADER_SLOTS_MAX = 64,
    LOADER_SLOTS_LEAST = 2,
    LOADER_WORKERS_MAX = 256,
    LOADER_MICRO_MAX = 1 << 19, /* samples; counts of pieces and slots must fit 32 bits */
    LOADER_QUEUE_DEPTH = 256,   /* reads in flight */
    /* Pieces closer than this are read together if the arena has room for the gaps, in reads of at
     * most LOADER_CHUNK_BYTES_MAX or a quarter of the arena. */
    LOADER_MERGE_GAP_BYTES = 64 << 10,
    LOADER_CHUNK_BYTES_MAX = 1 << 20,
    LOADER_SUBSTITUTES_MAX = 8, /* candidates tried for a bad sample */
    LOADER_REASON_BYTES = 192,
    LOADER_FIELD_BYTES = 256, /* names of fields, separated by `;` */
    LOADER_GROUP_ITEMS = 16,  /* small items that a worker takes together */
};

/* One read and its destination: request.data, NULL until it has memory, in the arena or, if the
 * arena cannot hold it, in own_memory (oversized_read.c). */
struct load_chunk {
    struct io_request request;
    void *own_memory; /* G: own_bytes; NULL: none */
    uint64_t own_bytes;
    struct load_slot *slot;
    uint32_t first_piece, pieces_count; /* in the slot's sorted list */
    uint32_t users;                     /* G: pieces whose items are not finished */
    bool is_read;                       /* G */
    uint64_t traced_ns;                 /* when it was issued; 0: not traced */
};

struct load_piece {
    struct view_piece view;
    uint32_t item, chunk;
};

/* One of the slot's pieces, sorted in read order. */
struct load_order {
    uint64_t shard, offset;
    uint32_t piece;
};

/* The loader's side of a batch_item. */
struct load_item {
    struct view_place place;
    /* in use until the slot is released; NULL if it cannot be opened */
    struct shard *shard;
    /* the substitute's shard, as above (LOADER_BYTES: the batch points to its data) */
    struct shard *other;
    uint64_t other_number; /* its number */
    uint32_t pieces_count;
    uint32_t pending; /* G: pieces not yet read */
    bool is_bad;
    bool has_failed; /* a read of it failed, which ends the run */
    uint64_t substitute;
    uint8_t *owned; /* LOADER_BYTES: a substitute's data, owned_bytes */
    uint64_t owned_bytes;
    int64_t bad_offset;
    char reason[LOADER_REASON_BYTES];
};

struct load_slot {
    struct batch batch;
    struct plan_micro micro;
    uint64_t once, order; /* sums over the items */
    /* G: memory of the batch's arrays, pinned; NULL until the first item is decoded, and after
     * release */
    uint8_t *memory;
    struct batch_item *items;
    struct batch_bytes *bytes; /* LOADER_BYTES: pieces_max per item */
    struct load_item *loads;
    struct load_piece *pieces; /* pieces_max per item */
    struct load_order *sorted;
    uint32_t sorted_count;
    struct load_chunk *chunks;
    uint64_t merge_gap_bytes; /* of its reads */
    uint32_t chunks_count, chunks_issued;
    uint32_t chunks_left;                 /* G: not yet read */
    uint32_t items_left;                  /* G: not yet decoded */
    uint64_t read_done_ns;                /* G: when its last bytes arrived; 0: not yet */
    atomic_uint_least32_t shards_awaited; /* opened by workers for substitutes */
    bool is_ready;                        /* G */
    uint32_t failed_item; /* G: the first item whose failure ends the run; UINT32_MAX: none */
    struct err err;       /* G: of that item, or of the whole slot */
};

/* An item that has been read and waits for a worker. */
struct load_work {
    struct load_slot *slot;
    uint32_t item;
};

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

/* A dataset and its view. */
struct load_source {
    struct dataset *dataset;
    struct view *view;
};

/* Why the reader is blocked. */
enum load_block { LOAD_RUNNING, LOAD_NO_SLOT, LOAD_NO_SPACE, LOAD_DONE };

struct loader {
    /* Immutable after open. */
    struct loader_options options; /* texts point into the loader */
    char field[LOADER_FIELD_BYTES];
    struct io *io, *own_io;
    struct device *device, *own_device;
    struct load_source *sources; /* [sources_count], by dataset number */
    uint32_t sources_count;
    struct loader_schema schema; /* of the first dataset; the others agree */
    /* The reference's number for each class of the datasets; NULL: labels stay as they are. */
    int32_t *label_map;
    uint64_t labels_count; /* stored labels are below this; 0: unknown */
    uint64_t classes_count;
    struct shard_cache *cache;
    struct mixup *mixup;       /* NULL: images are not mixed */
    struct order_params order; /* for a mix: samples per epoch, the rest as requested */
    uint64_t steps;            /* per epoch */
    uint32_t slots_count, pieces_max, workers_count;
    uint32_t ahead_inline; /* at most ahead_max; see inline_decode.c */
    uint64_t slot_bytes;   /* pinned memory per slot */
    void *arena_memory;
    uint64_t memory_bytes; /* everything allocated at open */
    uint64_t merge_gap_bytes, chunk_bytes_max;
    uint32_t group_items;
    unsigned read_flags; /* enum io_request_flags */

    /* Used by the reader only. */
    struct sampler *sampler;
    struct plan plan;
    struct io_queue *queue;
    struct io_request **reaped; /* LOADER_QUEUE_DEPTH */
    uint32_t in_flight;
    bool reading_failed;
    uint64_t frees_seen;              /* the arena's frees_count when it was last full */
    struct trace_track *reader_track; /* NULL: no trace */
    pthread_t reader;

    pthread_mutex_t mutex;
    pthread_cond_t reader_wake, consumer_wake; /* one waiter each */
    bool stop;                                 /* G */
    struct read_arena arena;                   /* G */
    uint64_t spare_bytes; /* G: unused rest of the budget, for oversized reads */
    /* held by workers and batches; at most memory_bytes */
    atomic_uint_least64_t substitute_bytes;
    /* G: a stack of the memory that no slot uses, spare_count of slots_count */
    uint8_t **spare_memory;
    uint32_t spare_count;
    uint32_t ahead_max; /* G: at most slots_count */
    /* G: bytes of reads that completed at submission, since the last one that did not */
    uint64_t inline_decode_bytes;
    /* G: a worker was idle while ahead_max held the reader back, and the consumer has not lacked a
     * batch since */
    bool is_starved;
    /* G: taken + 1 when the consumer last found no batch; 0: never */
    uint64_t underrun_noted;
    struct load_slot *slots;
    /* G: numbers of micro-batches begun by the reader, decoded, taken by the consumer, and
     * released: released <= taken <= ready <= planned */
    uint64_t planned, ready, taken, released;
    bool plan_ended; /* G: the reader will plan no more */
    /* G: value of released when the next micro-batch lacked files; UINT64_MAX: none did */
    uint64_t released_short;
    enum open_files_share share_short; /* G: the share in which files were lacking */
    enum load_block reader_block;      /* G */
    bool reader_waits, consumer_waits; /* G */
    struct load_work *work;            /* G: a ring of work_capacity */
    uint32_t work_capacity, decoding;  /* G: decoding: items held by workers */
    uint64_t work_first, work_next;    /* G */
    struct load_worker *idle;          /* G: a stack */
    struct load_worker *workers;
    uint32_t workers_started; /* used by the consumer */
    bool reader_started;
    /* G: since when everything waits for the consumer; 0: it does not */
    uint64_t full_since_ns;
    struct loader_stats stats; /* G */
    uint64_t opened_ns;
    char pixels_libraries[IMAGE_LIBRARIES_BYTES]; /* "" if nothing is decoded */

    /* Used by the consumer only. */
    int failure; /* returned by all later calls of loader_next */
    struct err failure_err;
    struct cursor cursor;
    /* [sources_count]; the consumer updates the counts */
    struct loader_dataset *datasets;
    uint64_t once, order_digest;          /* up to the last batch taken */
    struct loader_bad_sample *quarantine; /* LOADER_QUARANTINE_MAX; its texts are in reasons */
    char (*reasons)[LOADER_REASON_BYTES];
    uint64_t quarantine_count;
};

static inline struct load_slot *loader_slot(struct loader *loader, uint64_t number)
{
    return &loader->slots[number % loader->slots_count];
}

/* The size of a target image. */
static inline uint64_t loader_picture_bytes(const struct loader *loader)
{
    return (uint64_t)loader->options.image.width * loader->options.image.height * 3;
}

/* The number of 4-byte values per image in a batch besides its pixels: label, partner's label,
 * weight. */
static inline uint64_t loader_image_words(const struct loader *loader)
{
    return mixup_is_on(&loader->options.image.mixup) ? 3 : 1;
}

static inline const struct load_source *loader_source_of(const struct loader *loader,
                                                         struct sample_ref ref)
{
    return &loader->sources[ref.dataset];
}

/* sources.c: fills in sources, datasets and cache; needs io and options. Also after a failure,
 * loader_sources_close closes what was opened. */
int loader_sources_open(struct loader *loader, const struct loader_source *list, uint32_t count,
                        struct err *err);
void loader_sources_close(struct loader *loader); /* safe on a zeroed loader */
uint64_t loader_sources_fingerprint(const struct loader *loader);

/* schema.c: what the dataset's labels and tokens mean; borrows from dataset. */
struct loader_schema schema_of(const struct dataset *dataset);
/* Do both have the same tokens? Properties unknown on either side are not compared. */
bool schema_has_same_tokens(const struct loader_schema *a, const struct loader_schema *b);
/* Formats "tokenizer "gpt2", ..." for err_expected and err_found. */
enum { SCHEMA_TEXT_BYTES = 160 };
const char *schema_describe_tokens(const struct loader_schema *schema,
                                   char text[SCHEMA_TEXT_BYTES]);
/* Checks the datasets, which agree, against the options' reference and limits. Fills in schema,
 * label_map, labels_count and classes_count. loader_sources_close frees the map. */
int loader_check_schema(struct loader *loader, struct err *err);

/* budget.c: allocates slots, arena and scratch within memory_bytes. -ENOMEM; -EINVAL with advice if
 * the budget is too small. */
int loader_budget_init(struct loader *loader, struct err *err);
void loader_budget_deinit(struct loader *loader);

/* slot.c */
/* Sets up the batch's items; slot_acquire_memory adds its arrays. */
void slot_begin(struct load_slot *slot, const struct plan_micro *micro, uint32_t items_count);
/* Releases what the slot holds: shards, and the memory of substitutes. */
void slot_clear(struct loader *loader, struct load_slot *slot);
/* Needs mutex: take allocates memory for the batch's arrays if it has none; give returns it. */
void slot_acquire_memory(struct loader *loader, struct load_slot *slot);
void slot_release_memory(struct loader *loader, struct load_slot *slot);
void slot_note_bad(struct load_slot *slot, uint32_t item, const struct err *why);
/* Needs mutex: the item ends the run, unless an earlier one does. */
void slot_fail(struct load_slot *slot, uint32_t item, const struct err *why);

/* read_plan.c: looks up the slot's items, at positions first, first + stride, ..., and plans its
 * reads. share limits the files for shards. Bad samples are noted; failures not caused by the data
 * (memory, files) are returned. */
int read_plan_slot(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                   enum open_files_share share, struct err *err);

/* oversized_read.c, needs mutex: allocates memory from the rest of the budget for a chunk that the
 * arena can never hold. -ENOBUFS: the rest is too small; -ENOMEM with detail. */
int chunk_alloc_own_memory(struct loader *loader, struct load_chunk *chunk, struct err *err);
/* Needs mutex: frees the chunk's memory. */
void chunk_free_memory(struct loader *loader, struct load_chunk *chunk);

/* read_stage.c, decode_stage.c: the threads' main functions. */
void *read_stage_main(void *loader);
void *decode_stage_main(void *worker);
/* Needs mutex: queues an item for decoding, because it has all its bytes or is already bad. put
 * wakes no worker for it. */
void decode_stage_add(struct loader *loader, struct load_slot *slot, uint32_t item);
void decode_stage_put(struct loader *loader, struct load_slot *slot, uint32_t item);
/* Needs mutex and a nonempty queue: takes the next items of one slot, LOADER_GROUP_ITEMS at most.
 * Each must be finished or given back. */
uint32_t decode_stage_take(struct loader *loader, struct load_work *group);
/* Needs mutex: the item is in the batch; its bytes are released unless the batch points to them. */
void decode_stage_finish(struct loader *loader, const struct load_work *work);
/* Needs mutex: leaves the item to a worker. */
void decode_stage_requeue(struct loader *loader, const struct load_work *work);
/* Needs mutex: the slot is complete. */
void slot_set_ready(struct loader *loader, struct load_slot *slot);
/* The same, but if it returns true, the caller must signal consumer_wake, preferably after
 * unlocking mutex, for which the consumer would otherwise wait. */
bool slot_note_ready(struct loader *loader, struct load_slot *slot)
    __attribute__((warn_unused_result));
/* Needs mutex: wakes the reader if it waits for memory. */
void read_stage_wake(struct loader *loader);
/* Needs mutex: batches were taken or released, or ahead_max grew. Unblocks the reader if it waited
 * for that. */
void read_stage_note_slots(struct loader *loader);
/* Needs mutex: a worker is idle; notes whether the reason is the read-ahead limit. */
void read_stage_note_idle(struct loader *loader);

/* item.c: decodes one sample into its place in the batch. pieces have their data. -EBADMSG and
 * similar: the sample is bad. */
int item_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                uint32_t count, struct err *err);
/* The same for LOADER_BYTES, on any thread. */
int item_decode_bytes(const struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct shard *shard, const struct view_piece *pieces, uint32_t count,
                      struct err *err);
/* mixup_batch.c: mixes the images of a slot whose items are all decoded, and fills in their second
 * labels. */
void mixup_batch_slot(struct load_worker *worker, struct load_slot *slot);
/* substitute.c: finds and decodes another sample in place of a bad one. */
int item_substitute(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                    struct err *err);
/* Frees the memory of a substitute's bytes; NULL is fine. */
void substitute_free(struct loader *loader, uint8_t *memory, uint64_t bytes);
/* False if the sample's bytes are bad: -EBADMSG, -ENODATA (a truncated file), -ENOTSUP. All other
 * failures (memory, I/O, a missing shard) end the run: with a substitute, the samples delivered
 * would depend on transient disk errors. */
bool item_failure_is_fatal(int status);

/* inline_decode.c, needs mutex: all recent reads completed at submission. LOADER_BYTES only. */
bool inline_decode_is_steady(const struct loader *loader);
/* Needs mutex: the most bytes to submit together, and the largest gap between pieces merged into
 * one read. */
uint64_t inline_decode_slice_bytes(const struct loader *loader);
uint64_t inline_decode_gap_bytes(const struct loader *loader);
/* Needs mutex: records that `bytes` were submitted, and whether all of them have already
 * completed. */
void inline_decode_note(struct loader *loader, uint64_t bytes, bool all_completed);
/* In the steady state, the reader does the workers' part for all waiting items. */
void inline_decode_run(struct loader *loader);

/* sources.c: the files are larger than half of the available memory. */
bool loader_sources_outgrow_memory(const struct loader *loader);

/* wait.c, needs mutex: is there a micro-batch to take, or the end to report? */
bool loader_has_next(struct loader *loader);
/* Needs mutex: the consumer found no micro-batch. Raises ahead_max if that would have prevented it.
 * Each micro-batch counts once, however often the consumer asks; before the first batch nothing
 * would have helped. */
void loader_note_underrun(struct loader *loader);
/* Needs mutex: waits until loader_has_next. -ETIMEDOUT with detail by the options' timeout. */
int loader_wait(struct loader *loader, struct err *err);

/* stats.c, needs mutex: checks whether everything now waits for the consumer, or no longer does. */
void stats_update_full(struct loader *loader);
/* Needs mutex: the consumer waited for the slot from begin_ns to end_ns. */
void stats_add_wait(struct loader *loader, const struct load_slot *slot, uint64_t begin_ns,
                    uint64_t end_ns);

#endif
