/*
 * loader — a dataset in, micro-batches out, in an order that is a pure function of the
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
 * How it works: the order is known, so a reader thread plans ahead: for each coming micro-batch
 * that this rank owns it looks up the samples, turns them into ranges, merges near ones and submits
 * them to the I/O engine, deep; workers verify, decode and lay out what has arrived straight into
 * the batch's buffer; the consumer takes batches in order. Everything that is read or decoded ahead
 * lives in memory that is sized once, by memory_bytes, and touched as far as it is needed;
 * afterwards nothing is allocated, but for a sample that is larger than all that was set aside for
 * reads, within memory_bytes too.
 *
 * Two views of a dataset: **members** (a sample is the members of one key) and **windows** of text
 * (a sample is block + 1 tokens of a token member, stride block).
 *
 * Threads: the calls below come from one thread, the consumer's. The library prints nothing and
 * handles no signals.
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
    LOADER_BYTES, /* fields as they are stored: see batch_item */
    /* "image": U8 [items, height, width, 3]; "label": I32 [items], -1 where a sample has no cls.
     * With mixup or cutmix also "partner_label": I32 [items], of the picture that each was mixed
     * with, and "label_weight": F32 [items], what the own label counts, 0..1; the partner's counts
     * the rest. A picture that was not mixed has its own label twice, and the weight 1. */
    LOADER_IMAGE,
    LOADER_TOKENS, /* "tokens": I32 [items, block + 1] */
};

/* What comes of a sample that can not be used. In all but the first, a damaged tar of another tool
 * gives the samples that are whole (shards/foreign.h): what is left out is logged when the loader
 * opens, and counted. */
enum loader_bad_policy {
    LOADER_BAD_STOP, /* the first bad sample is an error, and so is a damaged tar */
    /* A deterministic other sample takes its place (docs/reference/order.md), augmented as itself;
     * it is logged, counted, listed. */
    LOADER_BAD_SUBSTITUTE,
    /* Its place in the batch stays empty: see batch_item's skipped. It is logged, counted, listed.
     * loader_cursor's digests have its terms all the same, as its position was passed; who wants
     * sums without it adds the terms up (sampler.h). */
    LOADER_BAD_SKIP,
};

/* A dataset of a mix. */
struct loader_source {
    const char *path; /* as options.dataset */
    uint64_t weight;  /* at least 1; only the ratios count: see sampler/mix.h */
};

/* What labels and tokens mean. Borrows its texts. */
struct loader_schema {
    const char *path;           /* of the dataset or checkpoint that it describes; for messages */
    const char *const *classes; /* names in order of their numbers */
    uint64_t classes_count;     /* 0: the names are unknown */
    const char *tokenizer;      /* NULL: no text */
    uint64_t tokenizer_xxh3; /* of the files that define it; 0: it has none, or they are unknown */
    uint32_t vocabulary, document_end;
};

enum {
    LOADER_PIXELS_DEFAULT = 1 << 27, /* above the largest photos: 100 megapixels */
    LOADER_PIXELS_MAX = 1 << 28,
};

/* Immutable after open; texts are copied. */
struct loader_options {
    const char
        *dataset; /* dataset.json or its folder, a tar, a pattern of tars: see dataset_open */
    /* Or several datasets, drawn from by weight: mix_count of them, and dataset is NULL. An epoch
     * then has as many positions as all of them have samples together; each goes through its own
     * epochs, in its own order (docs/reference/order.md). Their class names (images), tokens (text)
     * or fields (bytes) must be the same. Borrowed while it opens. */
    const struct loader_source *mix;
    uint32_t mix_count;
    struct io
        *io; /* NULL: the loader opens the backend that the first path needs, and reads all by it */
    struct device *device; /* batch buffers are its pinned memory; NULL: the cpu's */
    /* What labels and tokens must mean, for an evaluation: the schema of the training data. A label
     * becomes the reference's number of the class of the same name, where both name their classes;
     * otherwise it stays as it is. loader_open returns -EINVAL for a class that the reference lacks
     * and for another tokenizer. NULL: labels and tokens mean what the dataset says. Borrowed
     * during loader_open. */
    const struct loader_schema *reference;

    /* The order; zeros are resolved (see order_params_resolve). samples is filled in. */
    enum order_kind order;
    uint64_t seed, lanes, window, run;
    uint32_t epoch; /* the first */
    uint64_t
        /* within it, what the cursor says; in the middle of a step, its rest is delivered */
        position;
    uint64_t once, order_digest; /* the digests so far, from the cursor */
    uint64_t positions_max; /* stop after so many global positions, of all ranks; 0: no limit */
    uint64_t epochs_max;    /* stop at the end of so many epochs, the first included; 0: never */
    /* Training: a step that the epoch's end would cut short is left out. Else the last step's
     * micro-batches have the items whose position is below N. */
    bool drop_tail;

    struct batching batching;

    enum loader_decode decode;
    struct {
        /* Extension, or some with `;` between them, of which a sample's first counts:
         * "jpg;jpeg;png;webp;ppm". What the file is (JPEG, PNG, WebP, PPM) is told by its
         * content. */
        const char *field;
        uint32_t width, height;
        struct crop_options crop;
        struct augment_options augment;
        /* Each picture is mixed with another of its micro-batch (docs/reference/images.md). */
        struct mixup_options mixup;
        bool requires_label; /* a sample without a `cls` field is bad */
        /* Labels are below it, also where the dataset names no classes: others make the sample bad.
         * loader_open returns -EINVAL where more classes are named. 0: the dataset's class names
         * alone limit labels. */
        uint64_t classes;
        /* Of a stored image: one with more is a bad sample. Bounds what decoding takes, up to 12
         * bytes a pixel of a progressive JPEG. At most LOADER_PIXELS_MAX; 0:
         * LOADER_PIXELS_DEFAULT. */
        uint64_t pixels_max;
    } image;
    struct {
        const char *field; /* extension, "npy" */
        uint32_t block;    /* tokens of an input; a sample has one more */
        uint64_t
            /* token ids are below it: -EINVAL for a larger vocabulary; 0: the dataset's */
            vocabulary;
    } text;

    enum loader_bad_policy bad_policy;
    /* Of an epoch's samples, or of those delivered where they are more, and at least one: more end
     * the run. Both are counted from this loader's opening, not over resumes. What is left out of
     * damaged tars counts like bad samples. 1: no limit. */
    double bad_fraction_max;
    bool verify; /* CRCs of what was read; on by default */

    /* Nobody wants the bytes again soon: they need not stay in the page cache. They need not in any
     * case where the datasets are larger than half of the memory that programs can still take: none
     * would be there any more when its turn comes again. */
    bool single_pass;
    /* Only what follows from the datasets and their order is asked: nothing is read ahead, and
     * loader_next is -EINVAL. */
    bool order_only;
    /* Only what it is made of is asked, and how much memory it takes of the device: nothing is read
     * ahead, and loader_next is -EINVAL. */
    bool memory_only;
    unsigned workers; /* decoding threads; 0: one a CPU */
    /* For batch buffers, read-ahead, lists and scratch together; 0: 1 GiB. Beside it: the indexes
     * of open shards, the bytes of substitutes until their batches are released, at most as much
     * again, and of a picture whose decoded part takes more than 2 MiB the rest, once a worker
     * (image.pixels_max bounds it). */
    uint64_t memory_bytes;
    unsigned
        /* micro-batches in the making, 2 to 64; 0: few, and more where they prove too few, as
         * memory allows */
        batches_ahead;
    /* From the consumer's thread: a line a bad sample, and a line each time that loader_next waited
     * so long as below. */
    const struct log *log;
    uint64_t
        /* how long a wait is worth a line that names what it waits for; 0: 30 s; UINT64_MAX:
         * never */
        stall_report_ns;
    uint64_t timeout_ns; /* how long a wait ends the run with -ETIMEDOUT; 0: none does */
    /* A wait ends soon after this is true; asked some 20 times a second by the consumer's thread,
     * under a lock: it calls nothing of the loader. NULL: nobody stops. */
    bool (*wants_stop)(const void *context);
    const void *stop_context;
    struct trace *
        /* of the program, which outlives the loader: its threads add what they do (base/trace.h);
         * NULL: none */
        trace;
};

/* Shuffled bytes, in micro-batches of 32 of 256; bad samples substituted, up to 1 %; 1 GiB; images
 * 224 x 224, centre crop; an alpha for mixup or cutmix mixes all of them, half of them each way
 * where both have one. */
struct loader_options loader_options_default(void);

/* -EINVAL with advice: options that contradict each other or the dataset, datasets of a mix that do
 * not agree, too little memory. Otherwise what opening the datasets gives. Shards are opened when
 * first needed, but for text of which dataset.json does not tell how long members are (windows.h):
 * such shards are opened once here. */
int loader_open(const struct loader_options *options, struct loader **ret_loader, struct err *err);
/* Cancels what is in flight, joins all threads; a read that the kernel does not give back is waited
 * for. Batches not released become invalid. NULL is fine. */
void loader_close(struct loader *loader);

enum { BATCH_FIELDS_MAX = 8 };

/* One array of a batch; usable from any language. */
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
    /* As the order says, also where another sample was substituted. epoch is that of
     * ref.dataset. */
    struct sample_ref ref;
    const char *key; /* not NUL-terminated; for windows the member's */
    uint32_t key_bytes;
    int64_t window; /* number of the window within its member, -1 for members */
    bool substituted;
    /* LOADER_BAD_SKIP: nothing came of it; it has no fields, and the batch's arrays hold leftovers
     * in its place. */
    bool skipped;
    const struct batch_bytes *fields; /* LOADER_BYTES: fields_count of them */
    uint32_t fields_count;
};

/* Belongs to the consumer until it is released; immutable for it. */
struct batch {
    uint32_t epoch;
    uint64_t step;     /* within the epoch */
    uint64_t micro;    /* j, of the step's M */
    bool last_of_step; /* the last micro-batch that this rank owns of this step */
    /* b; fewer, even 0, where the kept tail of an epoch, the start or positions_max cuts the
     * step. */
    uint32_t items_count;
    const struct batch_item *items;
    struct batch_field fields[BATCH_FIELDS_MAX];
    uint32_t fields_count;
};

/* The field of that name, NULL where the batch has none. */
const struct batch_field *batch_field_named(const struct batch *batch, const char *name);

/* LOADER_BATCH: *ret_batch is the next micro-batch; blocks until it is ready. LOADER_END: nothing
 * is left. Else -errno: a bad sample under LOADER_BAD_STOP, too many of them, an I/O error or a
 * shard that is gone (never substituted: only bytes at fault make a sample bad), a sample that does
 * not fit the memory, -ETIMEDOUT; the loader then only closes. Batches before the bad one are
 * delivered first. -EINTR in place of waiting where options.wants_stop says so; it may be asked
 * again. -ENOBUFS while the caller holds all the memory there is: release a batch and try again, if
 * the loader's slots were what lacked. */
enum { LOADER_END = 0, LOADER_BATCH = 1 };
int loader_next(struct loader *loader, const struct batch **ret_batch, struct err *err);
/* True where loader_next would not block. False counts like a wait where it is decided how far
 * ahead is read. Who asks is not taken to wait: where the batches that it holds keep the memory or
 * the files that the next one lacks, it is false until one is released, and only loader_next
 * tells. */
bool loader_ready(struct loader *loader);
/* Gives the batch's memory back. In the order that they came. */
void loader_release(struct loader *loader, const struct batch *batch);

/* The cursor after everything up to and including the last *step* whose micro-batches were all
 * taken by loader_next: what a checkpoint stores. The digests cover the items of this rank's
 * micro-batches; sums over ranks give the whole. */
struct cursor loader_cursor(const struct loader *loader);

/* What the order was resolved to, and the size of things. */
struct loader_shape {
    struct order_params order; /* of a mix: what was asked for; loader_datasets tells each's */
    uint64_t fingerprint;      /* of a mix: of all, and their weights */
    uint64_t samples;          /* an epoch: members or windows, of all datasets together */
    uint64_t steps;            /* an epoch, of the global batch: dropped tail not counted */
    uint64_t
        classes_count; /* labels are below it: the reference's where they are mapped; 0: unknown */
    uint32_t vocabulary;   /* text: token ids are below it */
    uint32_t document_end; /* text: the token behind each document */
    /* Of the image pipeline: another gives other pixels; 0 where nothing is decoded. */
    uint32_t pixels_version;
    /* That decode, with their versions; "" where nothing is decoded. Lives as long as the
     * loader. */
    const char *pixels_libraries;
    uint64_t memory_bytes; /* what was taken of the budget */
    const char *engine;    /* of io */
    uint32_t workers;      /* decoding threads */
};
struct loader_shape loader_shape(const struct loader *loader);

/* What the dataset says that its labels and tokens mean, without options.reference. Lives as long
 * as the loader. */
const struct loader_schema *loader_schema(const struct loader *loader);

/* The datasets behind a loader in the order of their numbers (sample_ref.dataset), also where there
 * is one. */
struct loader_dataset {
    const char *path; /* of its list: dataset.json, the tar, the pattern */
    uint64_t weight;  /* reduced; 1 where there is one */
    uint64_t fingerprint;
    struct order_params order; /* samples: of its own epoch */
    uint64_t delivered_count;  /* samples in the batches taken so far */
};
/* Returns how many. The list lives as long as the loader; its counts move with loader_next. */
uint32_t loader_datasets(const struct loader *loader, const struct loader_dataset **ret_list);

/* How well a global batch is mixed, beside a full shuffle: 1 is as well, near 0 a sequential order
 * (sampler/quality.h). Computed from the order alone, in some 3 ms a dataset, within 2 %.
 * -ENOMEM. */
int loader_quality(const struct loader *loader, double *ret_ratio, struct err *err);

enum loader_stage {
    LOADER_STAGE_READ,
    LOADER_STAGE_DECODE,
    LOADER_STAGE_COPY,
    LOADER_STAGE_CONSUMER,
    LOADER_STAGE_COUNT
};
const char *loader_stage_name(enum loader_stage stage);

struct loader_stats {
    uint64_t samples_count, batches_count; /* a micro-batch without items is no batch here */
    uint64_t read_bytes, reads_count;      /* from the engine: merged, with what verifying needs */
    uint64_t wanted_bytes; /* of these, what samples are made of: their fields, windows or rows */
    uint64_t bad_samples_count, jpeg_warnings_count;
    /* Of damaged tars, in all of the data: members, or all from some place on, each of which counts
     * once. Known once open. */
    uint64_t left_out_count;
    uint64_t ahead_count; /* micro-batches being read or decoded now, or ready and not yet taken */
    uint64_t
        /* from the beginning of loader_open until loader_next gave the first; 0 before */
        first_batch_ns;
    uint64_t wait_ns;       /* loader_next blocked so long */
    uint64_t decode_cpu_ns; /* of all workers */
    uint64_t
        stage_ns[LOADER_STAGE_COUNT]; /* how long each stage was the one that the rest waited for */
    enum loader_stage limit;          /* the largest of these */
};
struct loader_stats loader_stats(const struct loader *loader);

/* Bad samples so far: the first LOADER_QUARANTINE_MAX of them, oldest first. The texts live as long
 * as the loader. */
enum { LOADER_QUARANTINE_MAX = 1024 };
struct loader_bad_sample {
    struct sample_ref ref;
    uint64_t substitute; /* the sample that took its place; itself where it was skipped */
    const char *reason;
};
uint64_t loader_quarantine(const struct loader *loader, const struct loader_bad_sample **ret_list);

/* The rule of bad_fraction_max for what several ranks' loaders of the same data have met together;
 * each has bad_fraction_max 1, so that it lets all pass by itself. What is left out of damaged
 * tars, which is the same for all of them, is added here. -EBADMSG: too many. */
int loader_judge_bad(const struct loader *loader, double fraction_max, uint64_t bad_count,
                     uint64_t delivered_count, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
