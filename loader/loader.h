/*
 * loader — turns a dataset into micro-batches, in an order that is a pure function of the
 * configuration.
 *
 *     struct loader_options options = loader_options_default();
 *     options.dataset = "shards/dataset.json";
 *     options.batching = (struct batching){.global = 256, .micro = 32, .ranks = 1};
 *     loader_open(&options, &loader, err);
 *     while ((status = loader_next(loader, &batch, err)) == LOADER_BATCH) {
 *         ... batch->fields ...
 *         loader_release(loader, batch);
 *     }
 *     loader_close(loader);
 *
 * The order is known in advance, so a reader thread plans ahead. For each coming micro-batch of
 * this rank it looks up the samples, merges neighboring ranges and keeps many reads in flight.
 * Workers verify what arrives and decode it straight into the batch's buffer. The consumer takes
 * batches in order. All of it lives in memory that is sized once, by memory_bytes, and touched only
 * as needed. Nothing is allocated later, except for a sample larger than the whole read-ahead,
 * which is also charged to memory_bytes.
 *
 * A dataset has one of two views: **members** (a sample is the members of one key) or **windows**
 * of text (a sample is block + 1 tokens of a token member, with stride block).
 *
 * Threads: all calls come from one thread, the consumer's. The library prints nothing and handles
 * no signals.
 */
#ifndef MILLRACE_LOADER_LOADER_H
#define MILLRACE_LOADER_LOADER_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/log.h"
#include "device/device.h"
#include "image/augment.h"
#include "image/crop.h"
#include "image/mixup.h"
#include "io/io.h"
#include "sampler/sampler.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct loader;
struct trace;

/* What a batch holds. */
enum loader_decode {
    LOADER_BYTES, /* fields as stored: see batch_item */
    /* "image": U8 [items, height, width, 3]; "label": I32 [items], -1 for a sample without cls.
     * With mixup or cutmix also "partner_label": I32 [items], the label of the image mixed in, and
     * "label_weight": F32 [items], the weight 0..1 of the own label; the partner's label has the
     * rest. An image that is not mixed has its own label twice and weight 1. */
    LOADER_IMAGE,
    LOADER_TOKENS, /* "tokens": I32 [items, block + 1] */
};

/* What happens to a sample that cannot be used. Except under LOADER_BAD_STOP, a damaged tar of
 * another tool yields its complete samples (shards/format/plain_tar.h); what is left out is logged
 * when the loader opens, and counted. */
enum loader_bad_policy {
    LOADER_BAD_STOP, /* the first bad sample is an error, and so is a damaged tar */
    /* Another sample, chosen deterministically (docs/reference/order.md), takes its place with its
     * own augmentation. The bad sample is logged, counted and listed. */
    LOADER_BAD_SUBSTITUTE,
    /* Its place in the batch stays empty (batch_item.skipped). It is logged, counted and listed.
     * The digests of loader_cursor still include it, because its position was passed; for digests
     * without it, add up the terms yourself (sampler.h). */
    LOADER_BAD_SKIP,
};

/* A dataset of a mix. */
struct loader_source {
    const char *path; /* as options.dataset */
    uint64_t weight;  /* at least 1; only ratios matter (sampler/mix.h) */
};

/* What labels and tokens mean. Borrows its texts. */
struct loader_schema {
    const char *path;           /* of the dataset or checkpoint described; for messages */
    const char *const *classes; /* names in order of their numbers */
    uint64_t classes_count;     /* 0: the names are unknown */
    const char *tokenizer;      /* NULL: no text */
    uint64_t tokenizer_xxh3;    /* of the tokenizer's files; 0: it has none, or they are unknown */
    uint32_t vocabulary, document_end;
};

enum {
    LOADER_PIXELS_DEFAULT = 1 << 27, /* more than 100-megapixel cameras take */
    LOADER_PIXELS_MAX = 1 << 28,
};

/* Immutable after open; texts are copied. */
struct loader_options {
    /* dataset.json or its folder, a tar, or a pattern of tars (dataset_open) */
    const char *dataset;
    /* Instead of dataset, which is then NULL: mix_count datasets, drawn from by weight. An epoch
     * has as many positions as all of them have samples; each dataset goes through its own epochs
     * in its own order (docs/reference/order.md). Their class names (images), tokens (text) or
     * fields (bytes) must agree. Borrowed during loader_open. */
    const struct loader_source *mix;
    uint32_t mix_count;
    struct io *io;         /* NULL: the loader opens the backend of the first path, for all paths */
    struct device *device; /* batch buffers are its pinned memory; NULL: the CPU's */
    /* For an evaluation, the schema of the training data. If both name their classes, each label is
     * mapped by class name to the reference's number; otherwise labels stay as they are.
     * loader_open returns -EINVAL for a class that the reference lacks and for another tokenizer.
     * NULL: labels and tokens are the dataset's own. Borrowed during loader_open. */
    const struct loader_schema *reference;

    /* The order; zeros are replaced by defaults (order_params_resolve). */
    enum order_kind order;
    uint64_t seed, lanes, window, run;
    uint32_t epoch;              /* the first */
    uint64_t position;           /* within it, from the cursor; the rest of a begun step follows */
    uint64_t once, order_digest; /* the digests so far, from the cursor */
    uint64_t positions_max;      /* stop after this many global positions, all ranks; 0: no limit */
    uint64_t epochs_max;         /* stop after this many epochs; 0: never */
    /* Training: drops the last step of an epoch if it is incomplete. Otherwise its micro-batches
     * have only the items whose position is below N. */
    bool drop_tail;

    struct batching batching;

    enum loader_decode decode;
    struct {
        /* One or more extensions, separated by `;`: "jpg;jpeg;png;webp;ppm". The first that a
         * sample has is used. The content determines the format (JPEG, PNG, WebP, PPM). */
        const char *field;
        uint32_t width, height;
        struct crop_options crop;
        struct augment_options augment;
        /* Each image is mixed with another of its micro-batch (docs/reference/images.md). */
        struct mixup_options mixup;
        bool requires_label; /* a sample without a `cls` field is bad */
        /* Labels must be below this, or the sample is bad. loader_open returns -EINVAL if the
         * dataset names more classes. 0: only the dataset's class names limit labels. */
        uint64_t classes;
        /* A stored image with more pixels is a bad sample. Bounds the memory for decoding, up to
         * 12 bytes per pixel for a progressive JPEG. At most LOADER_PIXELS_MAX; 0:
         * LOADER_PIXELS_DEFAULT. */
        uint64_t pixels_max;
    } image;
    struct {
        const char *field; /* extension, "npy" */
        uint32_t block;    /* tokens of an input; a sample has one more */
        /* Token ids are below this; -EINVAL if the dataset's vocabulary is larger. 0: the
         * dataset's. */
        uint64_t vocabulary;
    } text;

    enum loader_bad_policy bad_policy;
    /* More bad samples than this fraction of an epoch's samples (or of the samples delivered, if
     * more), and more than one, end the run. Counted since loader_open, not across resumes. What is
     * left out of damaged tars counts as bad. 1: no limit. */
    double bad_fraction_max;
    bool verify; /* check CRCs of what is read; on by default */

    /* The bytes will not be read again soon and need not stay in the page cache. Implied if the
     * datasets are larger than half of the available memory: nothing would survive until the next
     * epoch. */
    bool single_pass;
    /* Opens only what the order needs: nothing is read ahead, and loader_next is -EINVAL. */
    bool order_only;
    /* Opens only what determines memory and shape: nothing is read ahead, and loader_next is
     * -EINVAL. */
    bool memory_only;
    unsigned workers; /* decoding threads; 0: one per CPU */
    /* Limits batch buffers, read-ahead, lists and scratch together; 0: 1 GiB. Not included: the
     * indexes of open shards; the bytes of substitutes until their batches are released, at most as
     * much again; and, once per worker, what a decoded image takes beyond 2 MiB (image.pixels_max
     * bounds it). */
    uint64_t memory_bytes;
    /* Micro-batches being made, 2 to 64. 0: starts with few and adds more when they prove too few,
     * as memory allows. */
    unsigned batches_ahead;
    /* Called from the consumer's thread: one line per bad sample, and one per long wait. */
    const struct log *log;
    uint64_t stall_report_ns; /* log a wait this long, with its cause; 0: 30 s; UINT64_MAX: never */
    uint64_t timeout_ns;      /* a wait this long ends the run with -ETIMEDOUT; 0: never */
    /* A wait ends soon after this returns true. Polled about 20 times a second by the consumer's
     * thread under a lock, so it must not call the loader. NULL: never. */
    bool (*wants_stop)(const void *context);
    const void *stop_context;
    struct trace *trace; /* outlives the loader; its threads record what they do; NULL: none */
};

/* Shuffled bytes, in micro-batches of 32 of 256; bad samples are substituted, up to 1 %; 1 GiB;
 * images of 224 x 224, center crop. Setting an alpha for mixup or cutmix mixes all images; with
 * both set, each is used for half of them. */
struct loader_options loader_options_default(void);

/* -EINVAL with advice: options that contradict each other or the dataset, datasets of a mix that do
 * not agree, too little memory; or the error of opening a dataset. Shards are opened when first
 * needed, except text shards whose member lengths dataset.json does not give (windows.h). */
int loader_open(const struct loader_options *options, struct loader **ret_loader, struct err *err);
/* Cancels reads in flight, waits for those that cannot be cancelled, and joins all threads. Batches
 * not yet released become invalid. NULL is fine. */
void loader_close(struct loader *loader);

enum { BATCH_FIELDS_MAX = 8 };

/* One array of a batch. */
struct batch_field {
    const char *name;
    enum dtype dtype;
    uint32_t rank; /* dimensions */
    uint64_t shape[4];
    int64_t stride_bytes[4];
    void *data;
    struct device *device; /* where data lies; NULL: host memory */
};

/* One stored field of one sample (LOADER_BYTES). */
struct batch_bytes {
    const char *extension;
    const void *data;
    uint64_t bytes;
};

struct batch_item {
    uint64_t position; /* within the epoch */
    /* The sample that the order names, even if another one was substituted. Its epoch is that of
     * ref.dataset. */
    struct sample_ref ref;
    const char *key; /* not NUL-terminated; of a window: the member's */
    uint32_t key_bytes;
    int64_t window; /* number within its member; -1: not a window */
    bool substituted;
    /* LOADER_BAD_SKIP: the item has no fields, and its place in the batch's arrays is
     * unspecified. */
    bool skipped;
    const struct batch_bytes *fields; /* LOADER_BYTES: fields_count of them */
    uint32_t fields_count;
};

/* Owned by the consumer until released; read-only. */
struct batch {
    uint32_t epoch;
    uint64_t step;     /* within the epoch */
    uint64_t micro;    /* j, of the step's M */
    bool last_of_step; /* the last micro-batch that this rank owns of this step */
    /* b, or fewer (even 0) if the end of an epoch, the start or positions_max cuts the step. */
    uint32_t items_count;
    const struct batch_item *items;
    struct batch_field fields[BATCH_FIELDS_MAX];
    uint32_t fields_count;
};

/* NULL if the batch has no field of that name. */
const struct batch_field *batch_field_named(const struct batch *batch, const char *name);

/* Blocks until the next micro-batch is ready. LOADER_BATCH: it is *ret_batch. LOADER_END: there are
 * no more. Otherwise -errno:
 *   -EINTR     options.wants_stop returned true; loader_next may be called again
 *   -ENOBUFS   the caller's batches hold all memory; release one and call again
 *   -ETIMEDOUT, -EBADMSG, -EIO, ...   final, the loader can only be closed: a timeout, a bad sample
 *              under LOADER_BAD_STOP, too many bad samples, an I/O error or a missing shard (never
 *              substituted: only wrong bytes make a sample bad), a sample larger than the memory
 * Batches before the failing one are delivered first. */
enum { LOADER_END = 0, LOADER_BATCH = 1 };
int loader_next(struct loader *loader, const struct batch **ret_batch, struct err *err);
/* Whether loader_next would not block. A false result counts as a wait when the loader decides how
 * far to read ahead. If the caller's own batches hold the memory or files that the next one needs,
 * the result stays false until one is released; only loader_next reports that as an error. */
bool loader_ready(struct loader *loader);
/* Returns the batch's memory. Release batches in the order in which they came. */
void loader_release(struct loader *loader, const struct batch *batch);

/* The cursor behind the last *step* whose micro-batches loader_next has all returned: what a
 * checkpoint stores. The digests cover this rank's micro-batches; add them up over ranks. */
struct cursor loader_cursor(const struct loader *loader);

/* The order with its defaults filled in, and sizes. */
struct loader_shape {
    struct order_params order; /* of a mix: as requested; loader_datasets has each dataset's */
    uint64_t fingerprint;      /* of a mix: of all, and their weights */
    uint64_t samples;          /* members or windows in an epoch, of all datasets */
    uint64_t steps;            /* of the global batch in an epoch, without a dropped tail */
    uint64_t classes_count;    /* labels are below this; the reference's if mapped; 0: unknown */
    uint32_t vocabulary;       /* text: token ids are below this */
    uint32_t document_end;     /* text: the token after each document */
    uint32_t pixels_version;   /* of the image pipeline: each version has its own pixels; 0: none */
    /* The decoding libraries with their versions; "": none. Lives as long as the loader. */
    const char *pixels_libraries;
    uint64_t memory_bytes; /* allocated, of the budget */
    const char *engine;    /* of io */
    uint32_t workers;      /* decoding threads */
};
struct loader_shape loader_shape(const struct loader *loader);

/* The dataset's own schema, without options.reference. Lives as long as the loader. */
const struct loader_schema *loader_schema(const struct loader *loader);

/* A dataset of the loader; its number is sample_ref.dataset. */
struct loader_dataset {
    const char *path; /* dataset.json, the tar, or the pattern */
    uint64_t weight;  /* reduced; 1 for a single dataset */
    uint64_t fingerprint;
    struct order_params order; /* samples: of its own epoch */
    uint64_t delivered_count;  /* samples in the batches returned so far */
};
/* Returns how many datasets there are. The list lives as long as the loader; loader_next updates
 * its counts. */
uint32_t loader_datasets(const struct loader *loader, const struct loader_dataset **ret_list);

/* How well a global batch is mixed relative to a full shuffle: 1 is as well, near 0 is a sequential
 * order (sampler/quality.h). Computed from the order alone, in about 3 ms per dataset, within 2 %.
 * -ENOMEM. */
int loader_quality(const struct loader *loader, double *ret_ratio, struct err *err);

enum loader_stage {
    LOADER_STAGE_READ,
    LOADER_STAGE_DECODE,
    LOADER_STAGE_CONSUMER,
    LOADER_STAGE_COUNT
};
const char *loader_stage_name(enum loader_stage stage);

struct loader_stats {
    uint64_t samples_count, batches_count; /* micro-batches without items are not counted */
    uint64_t read_bytes, reads_count;      /* by the engine: merged, with what verification needs */
    uint64_t wanted_bytes;                 /* the part of read_bytes that samples consist of */
    uint64_t bad_samples_count, jpeg_warnings_count;
    uint64_t left_out_count; /* of damaged tars: members, or the rest of a tar as one */
    uint64_t ahead_count;    /* micro-batches in the making, or ready */
    uint64_t first_batch_ns; /* from loader_open to the first batch; 0 before */
    uint64_t wait_ns;        /* time that loader_next blocked */
    uint64_t decode_cpu_ns;  /* of all workers */
    uint64_t stage_ns[LOADER_STAGE_COUNT]; /* how long the others waited for each stage */
    enum loader_stage limit;               /* the stage with the largest stage_ns */
};
struct loader_stats loader_stats(const struct loader *loader);

/* The first LOADER_QUARANTINE_MAX bad samples, oldest first. The texts live as long as the
 * loader. */
enum { LOADER_QUARANTINE_MAX = 1024 };
struct loader_bad_sample {
    struct sample_ref ref;
    uint64_t substitute; /* the sample that took its place; itself if it was skipped */
    const char *reason;
};
uint64_t loader_quarantine(const struct loader *loader, const struct loader_bad_sample **ret_list);

/* Applies bad_fraction_max to the bad samples of several ranks' loaders of the same data together;
 * each of those loaders has bad_fraction_max 1. Adds what is left out of damaged tars, which is the
 * same for all. -EBADMSG: too many. */
int loader_judge_bad(const struct loader *loader, double fraction_max, uint64_t bad_count,
                     uint64_t delivered_count, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
