/*
 * state — what the stages of a loader share.
 *
 *     plan -> [reader] slot: items, pieces, chunks -> io queue -> ready items
 *     ready items -> [workers] -> batch -> consumer
 *
 * A slot is a micro-batch in the making, and then the batch that the consumer holds. Slots are used
 * in turn: micro-batch number n of this loader lives in slot n mod slots_count. A chunk is one
 * read: neighbouring pieces of a slot in one range of the arena. The memory of a batch's arrays is
 * taken when the first of its items is decoded, of those that are free the one that was given back
 * last: so no more of it is ever touched than lies decoded at a time.
 *
 * How many micro-batches are begun and not yet taken is at most ahead_max. It begins small and
 * doubles whenever that was too few: workers had nothing to do since the reader held back, and then
 * the consumer had to wait, or asked in vain. While undecoded samples come out of the page cache it
 * is at most ahead_inline, and the reader does the workers' part (inline_decode.c).
 *
 * Who may touch a slot; hand-overs happen under `mutex`:
 *     reader       from when the slot is free until an item has all its bytes
 *     worker       an item, from when it is taken from the ready items until it is finished (so the
 *                  reader in a worker's part)
 *     consumer     from delivery to release
 *
 * Locks: `mutex` guards what is marked G below. The shard cache's own mutex is never held together
 * with it.
 */
#ifndef MILLRACE_LOADER_STATE_H
#define MILLRACE_LOADER_STATE_H

#include "base/trace.h"
#include "image/jpeg.h"
#include "image/pipeline.h"
#include "loader/loader.h"
#include "loader/plan.h"
#include "loader/read_arena.h"
#include "loader/shard_cache.h"
#include "loader/view.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    LOADER_SLOTS_MAX = 64,
    LOADER_SLOTS_LEAST = 2,
    LOADER_WORKERS_MAX = 256,
    LOADER_MICRO_MAX =
        1 << 19,              /* samples of a micro-batch: counts of pieces and slots fit 32 bits */
    LOADER_QUEUE_DEPTH = 256, /* reads in flight */
    /* Pieces nearer than this are read together, as far as there is room for the gaps, but no more
     * than so much, or a quarter of the arena. */
    LOADER_MERGE_GAP_BYTES = 64 << 10,
    LOADER_CHUNK_BYTES_MAX = 1 << 20,
    LOADER_SUBSTITUTES_MAX = 8, /* candidates tried for a bad sample */
    LOADER_REASON_BYTES = 192,
    LOADER_FIELD_BYTES = 256, /* of the names of fields, with `;` between them */
    LOADER_GROUP_ITEMS = 16,  /* small items that a worker takes at once */
};

/* One read, and where it lands: request.data, NULL until there is room for it; in the arena, or in
 * memory of its own where that had no place for it (oversized_read.c). */
struct load_chunk {
    struct io_request request;
    void *own_memory; /* G: of own_bytes; NULL: it has none */
    uint64_t own_bytes;
    struct load_slot *slot;
    uint32_t first_piece, pieces_count; /* in the slot's sorted list */
    uint32_t users;                     /* G: pieces whose items are not finished */
    bool is_read;                       /* G */
    uint64_t traced_ns;                 /* when it was issued; 0: nobody wants to know */
};

struct load_piece {
    struct view_piece view;
    uint32_t item, chunk;
};

/* An entry of the slot's pieces in the order of reading. */
struct load_order {
    uint64_t shard, offset;
    uint32_t piece;
};

/* The loader's side of a batch_item. */
struct load_item {
    struct view_place place;
    struct shard *shard;   /* in use until the slot is released; NULL where it can't be opened */
    struct shard *other;   /* the substitute's, likewise (LOADER_BYTES: its data is handed out) */
    uint64_t other_number; /* of that shard */
    uint32_t pieces_count;
    uint32_t pending; /* G: pieces not yet read */
    bool is_bad;
    bool has_failed; /* a read of it failed: the run ends here */
    uint64_t substitute;
    uint8_t *owned; /* LOADER_BYTES: memory of a substitute's data, owned_bytes of it */
    uint64_t owned_bytes;
    int64_t bad_offset;
    char reason[LOADER_REASON_BYTES];
};

struct load_slot {
    struct batch batch;
    struct plan_micro micro;
    uint64_t once, order; /* sums of the items' terms */
    uint8_t *
        /* G: of the batch's arrays: pinned; NULL until the first item is decoded, and after the
         * release */
        memory;
    struct batch_item *items;
    struct batch_bytes *bytes; /* LOADER_BYTES: pieces_max an item */
    struct load_item *loads;
    struct load_piece *pieces; /* pieces_max an item */
    struct load_order *sorted;
    uint32_t sorted_count;
    struct load_chunk *chunks;
    uint64_t merge_gap_bytes; /* of its reads */
    uint32_t chunks_count, chunks_issued;
    uint32_t chunks_left;                 /* G: not yet read */
    uint32_t items_left;                  /* G: not yet decoded */
    uint64_t read_done_ns;                /* G: when the last of its bytes came; 0: not yet */
    atomic_uint_least32_t shards_awaited; /* by workers, for substitutes */
    bool is_ready;                        /* G */
    uint32_t failed_item; /* G: the first item that ends the run; UINT32_MAX: none */
    struct err err;       /* G: of that item, or of the slot as a whole */
};

/* An item that is read and waits for a worker. */
struct load_work {
    struct load_slot *slot;
    uint32_t item;
};

struct load_worker {
    struct loader *loader;
    pthread_t thread;
    pthread_cond_t
        wake; /* one waiter: signals to several can get lost in glibc before 2.41 (its bug 25847) */
    bool is_asleep;                  /* G */
    struct load_worker *next_idle;   /* G */
    struct image_pipeline *pipeline; /* LOADER_IMAGE */
    uint8_t *picture;                /* of the target's size, where pictures are mixed */
    atomic_uint_least64_t jpeg_warnings;
    struct io_queue *queue;    /* for substitutes, opened when first needed */
    struct view_piece *pieces; /* pieces_max, of a substitute */
    struct trace_track *track; /* NULL: no trace */
    uint8_t *scratch;          /* a substitute's bytes */
    uint64_t scratch_bytes;
};

/* A dataset, and what its samples are. */
struct load_source {
    struct dataset *dataset;
    struct view *view;
};

/* Why the reader can not go on. */
enum load_block { LOAD_RUNS, LOAD_NO_SLOT, LOAD_NO_ROOM, LOAD_DONE };

struct loader {
    /* Immutable after open. */
    struct loader_options options; /* texts point into the loader */
    char field[LOADER_FIELD_BYTES];
    struct io *io, *own_io;
    struct device *device, *own_device;
    struct load_source *sources; /* sources_count of them, by the number of their dataset */
    uint32_t sources_count;
    struct loader_schema schema; /* of the first dataset, with which the others agree */
    /* The reference's number of each class of the datasets; NULL: numbers stay as they are. */
    int32_t *label_map;
    uint64_t labels_count; /* labels as stored are below it; 0: unknown */
    uint64_t classes_count;
    struct shard_cache *cache;
    struct mixup *mixup;       /* NULL: pictures are not mixed */
    struct order_params order; /* of a mix: samples of an epoch, the rest as asked for */
    uint64_t steps;            /* an epoch */
    uint32_t slots_count, pieces_max, workers_count;
    uint32_t ahead_inline; /* at most ahead_max; see inline_decode.c */
    uint64_t slot_bytes;   /* of the pinned memory of one */
    void *arena_memory;
    uint64_t memory_bytes; /* all that was taken at the start */
    uint64_t merge_gap_bytes, chunk_bytes_max;
    uint32_t group_items;
    unsigned read_flags; /* of io_request_flags */

    /* The reader's. */
    struct sampler *sampler;
    struct plan plan;
    struct io_queue *queue;
    struct io_request **reaped; /* LOADER_QUEUE_DEPTH */
    uint32_t in_flight;
    bool reading_failed;
    uint64_t frees_seen;              /* the arena's count when it last had none */
    struct trace_track *reader_track; /* NULL: no trace */
    pthread_t reader;

    pthread_mutex_t mutex;
    pthread_cond_t reader_wake, consumer_wake; /* one waiter each */
    bool stop;                                 /* G */
    struct read_arena arena;                   /* G */
    uint64_t spare_bytes; /* G: of the budget, what nothing has: for large reads */
    atomic_uint_least64_t
        substitute_bytes;   /* that workers and batches have: as many as memory_bytes */
    uint8_t **spare_memory; /* G: a stack of what no slot has, spare_count of slots_count */
    uint32_t spare_count;
    uint32_t ahead_max; /* G: at most slots_count */
    uint64_t
        /* G: of reads that came as they were asked for, since one had to be waited for */
        inline_decode_bytes;
    bool
        /* G: a worker found nothing to do while ahead_max held the reader back, and the consumer
         * lacked nothing since */
        is_starved;
    uint64_t lacks_noted; /* G: taken + 1 when the consumer last found nothing; 0: it never did */
    struct load_slot *slots;
    uint64_t planned, ready, taken,
        /* G: micro-batches that the reader began, that are decoded, that the consumer took and gave
         * back: released <= taken <= ready <= planned */
        released;
    bool plan_ended; /* G: the reader will plan no more */
    uint64_t
        /* G: how many were given back when the next one lacked files; UINT64_MAX: none did */
        released_short;
    enum open_files_share share_short; /* G: of which it lacked them */
    enum load_block reader_block;      /* G */
    bool reader_waits, consumer_waits; /* G */
    struct load_work *work;            /* G: a ring of work_capacity */
    uint32_t work_capacity, decoding;  /* G: items that workers hold */
    uint64_t work_first, work_next;    /* G */
    struct load_worker *idle;          /* G: a stack */
    struct load_worker *workers;
    uint32_t workers_started; /* the consumer's */
    bool reader_started;
    uint64_t full_since_ns;    /* G: since when all waits for the consumer; 0: it does not */
    struct loader_stats stats; /* G */
    uint64_t opened_ns;
    char pixels_libraries[IMAGE_LIBRARIES_BYTES]; /* "" where nothing is decoded */

    /* The consumer's. */
    int failure; /* what loader_next keeps returning */
    struct err failure_err;
    struct cursor cursor;
    struct loader_dataset *datasets; /* sources_count of them; their counts are the consumer's */
    uint64_t once, order_digest;     /* up to the last batch taken */
    struct loader_bad_sample *quarantine; /* LOADER_QUARANTINE_MAX, texts in reasons */
    char (*reasons)[LOADER_REASON_BYTES];
    uint64_t quarantine_count;
};

static inline struct load_slot *loader_slot(struct loader *loader, uint64_t number)
{
    return &loader->slots[number % loader->slots_count];
}

/* Of a target image. */
static inline uint64_t loader_picture_bytes(const struct loader *loader)
{
    return (uint64_t)loader->options.image.width * loader->options.image.height * 3;
}

/* Numbers of 4 bytes that a batch has of each image beside its pixels: label, partner's label,
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

/* sources.c: fills in sources, datasets and cache; io and options are there. What it opened is
 * closed by loader_sources_close, also after a failure. */
int loader_sources_open(struct loader *loader, const struct loader_source *list, uint32_t count,
                        struct err *err);
void loader_sources_close(struct loader *loader); /* safe on a zeroed loader */
uint64_t loader_sources_fingerprint(const struct loader *loader);

/* schema.c: what the dataset's labels and tokens mean; borrows from it. */
struct loader_schema schema_of(const struct dataset *dataset);
/* Do both mean the same tokens? What either does not know is not compared. */
bool schema_has_same_tokens(const struct loader_schema *a, const struct loader_schema *b);
/* As "tokenizer "gpt2", ...", for err_expected and err_found. */
enum { SCHEMA_TEXT_BYTES = 160 };
const char *schema_describe_tokens(const struct loader_schema *schema,
                                   char text[SCHEMA_TEXT_BYTES]);
/* Holds the datasets, which agree, against the options' reference and limits. Fills in schema,
 * label_map, labels_count and classes_count. loader_sources_close frees the map. */
int loader_check_schema(struct loader *loader, struct err *err);

/* budget.c: slots, room and scratch within memory_bytes. -ENOMEM, -EINVAL with advice where the
 * budget is too small. */
int loader_budget_init(struct loader *loader, struct err *err);
void loader_budget_deinit(struct loader *loader);

/* slot.c */
/* The batch's items; its arrays come with slot_take_memory. */
void slot_begin(struct load_slot *slot, const struct plan_micro *micro, uint32_t items_count);
/* Gives back what the slot borrowed from others: shards, substitutes' memory. */
void slot_clear(struct loader *loader, struct load_slot *slot);
/* With mutex: memory for the batch's arrays, if it has none yet; and back. */
void slot_take_memory(struct loader *loader, struct load_slot *slot);
void slot_give_memory(struct loader *loader, struct load_slot *slot);
/* Notes that an item is bad and why. */
void slot_note_bad(struct load_slot *slot, uint32_t item, const struct err *why);
/* With mutex: the item ends the run, unless one before it does. */
void slot_fail(struct load_slot *slot, uint32_t item, const struct err *why);

/* read_plan.c: looks up the slot's items, whose positions are first, first + stride, ..., and lays
 * out its reads, with shards of the share of files. Bad samples are noted; a failure that is ours
 * (memory, files) is returned. */
int read_plan_slot(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                   enum open_files_share share, struct err *err);

/* oversized_read.c, with mutex: memory of its own for a chunk that no room can ever come for, out
 * of what is left of the budget. -ENOBUFS: too little is, -ENOMEM with detail. */
int chunk_take_own_memory(struct loader *loader, struct load_chunk *chunk, struct err *err);
/* With mutex: the chunk's bytes are not needed any more. */
void chunk_give_memory(struct loader *loader, struct load_chunk *chunk);

/* read_stage.c, decode_stage.c: the threads' mains. */
void *read_stage_main(void *loader);
void *decode_stage_main(void *worker);
/* With mutex: an item has all its bytes (or is bad already) and may be decoded. put wakes no worker
 * for it. */
void decode_stage_add(struct loader *loader, struct load_slot *slot, uint32_t item);
void decode_stage_put(struct loader *loader, struct load_slot *slot, uint32_t item);
/* With mutex, where items wait: the next ones, of one slot, LOADER_GROUP_ITEMS at most. Each is
 * finished afterwards, or given back. */
uint32_t decode_stage_take(struct loader *loader, struct load_work *group);
/* With mutex: the item is in the batch, its bytes are not needed any more (unless the batch points
 * at them). */
void decode_stage_finish(struct loader *loader, const struct load_work *work);
/* With mutex: a worker has to see to it. */
void decode_stage_give_back(struct loader *loader, const struct load_work *work);
/* With mutex: the slot is complete. */
void slot_set_ready(struct loader *loader, struct load_slot *slot);
/* The same, but true leaves it to the caller to signal consumer_wake, best when it has let go of
 * the mutex, for which the consumer would wait else. */
bool slot_note_ready(struct loader *loader, struct load_slot *slot)
    __attribute__((warn_unused_result));
/* With mutex: wakes the reader if it waits for room. */
void read_stage_wake(struct loader *loader);
/* With mutex: batches were taken or given back, or ahead_max grew: the reader may begin more if it
 * stood still for that. */
void read_stage_note_slots(struct loader *loader);
/* With mutex: a worker has nothing to do. Is it since no more is read ahead? */
void read_stage_note_idle(struct loader *loader);

/* item.c: one sample's bytes into its place of the batch. pieces have their data. -EBADMSG and the
 * like: the sample is bad. */
int item_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                uint32_t count, struct err *err);
/* The same for LOADER_BYTES, by whatever thread. */
int item_decode_bytes(const struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct shard *shard, const struct view_piece *pieces, uint32_t count,
                      struct err *err);
/* mixup_batch.c: mixes the pictures of a slot whose items are all decoded, and fills in their
 * second labels. */
void mixup_batch_slot(struct load_worker *worker, struct load_slot *slot);
/* substitute.c: finds and decodes another sample in the place of a bad one. */
int item_substitute(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                    struct err *err);
/* Frees memory of a substitute's bytes; NULL is fine. */
void substitute_free(struct loader *loader, uint8_t *memory, uint64_t bytes);
/* False where the sample's bytes are at fault: -EBADMSG, -ENODATA (a file that is cut), -ENOTSUP.
 * All else (memory, I/O, a shard that is gone) ends the run: a substitute would make what is
 * delivered depend on the disk's day. */
bool item_failure_is_ours(int status);

/* inline_decode.c, with mutex: all that was asked for lately was there at once. Never but for
 * LOADER_BYTES. */
bool inline_decode_is_steady(const struct loader *loader);
/* With mutex: how many bytes may be asked for together, and how far apart pieces may lie that one
 * read brings. */
uint64_t inline_decode_slice_bytes(const struct loader *loader);
uint64_t inline_decode_gap_bytes(const struct loader *loader);
/* With mutex: so many bytes were asked for, and nothing is in flight any more, or something is. */
void inline_decode_note(struct loader *loader, uint64_t bytes, bool all_came);
/* The reader, where it is steady, does the workers' part for all items that wait for one. */
void inline_decode_decode(struct loader *loader);

/* sources.c: their files are larger than half of the memory that programs can still take. */
bool loader_sources_outgrow_memory(const struct loader *loader);

/* wait.c, with mutex: is there a micro-batch to take, or the end to tell? */
bool loader_has_next(struct loader *loader);
/* With mutex: there is none, and the consumer wants it: more is read ahead from now on, where that
 * would have spared it this. However often it asks, a micro-batch counts once; before the first
 * batch nothing would have helped. */
void loader_note_lack(struct loader *loader);
/* With mutex: waits until there is. -ETIMEDOUT with detail by the options' timeout. */
int loader_wait(struct loader *loader, struct err *err);

/* stats.c, with mutex: has it begun, or ceased, that all waits for the consumer? */
void stats_update_full(struct loader *loader);
/* With mutex: the consumer waited for the slot from begin to now. */
void stats_add_wait(struct loader *loader, const struct load_slot *slot, uint64_t begin_ns,
                    uint64_t end_ns);

#endif
