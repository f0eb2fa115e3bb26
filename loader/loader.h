/*
 * loader — turns a dataset into micro-batches, in an order that depends only on the configuration.
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
 * A reader thread plans the coming micro-batches of this rank, merges neighboring ranges and keeps
 * many reads in flight. Workers verify the data and decode it straight into the batch. The consumer
 * takes batches in order. All memory is allocated at open, within memory_bytes, and touched only
 * when needed. The exception is a sample larger than the whole read-ahead arena; its memory also
 * counts against memory_bytes.
 *
 * A dataset has one of two views: **members** (a sample is the members of one key) or **windows**
 * of text (a sample is block + 1 tokens of a token member, with stride block).
 *
 * Not thread-safe: one thread, the consumer, makes all calls, except that any may retain and
 * release batches and fields. The library prints nothing and handles no signals.
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
#include "image/normalize.h"
#include "io/io.h"
#include "sampler/sampler.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct loader;
struct trace;

/* Content of a batch. */
enum loader_decode {
    LOADER_BYTES, /* fields as stored: see batch_item */
    /* "image": U8 [items, height, width, 3], or what image.normalize requests. "label":
     * image.label_dtype [items], -1 for a sample without one. With mixup or cutmix also
     * "partner_label", of the same type, the label of the image mixed in, and "label_weight": F32
     * [items], the weight in 0..1 of "label"; "partner_label" has the remaining weight. An unmixed
     * image has the same label in both and weight 1. */
    LOADER_IMAGE,
    LOADER_TOKENS, /* "tokens": I32 [items, block + 1] */
    LOADER_RECORD, /* options.fields only */
};

/* How a stored field becomes a field of the batch. */
enum loader_field_decode {
    /* Ragged (struct batch_field): */
    LOADER_FIELD_BYTES, /* U8: the stored bytes */
    LOADER_FIELD_STR,   /* U8: valid UTF-8, not NUL-terminated */
    /* U8: JSON text (base/json/jsonx.h). Without a path, the stored bytes; with one, the value
     * there in compact form: without spaces, members in their order, numbers in short form. */
    LOADER_FIELD_JSON,
    /* Elements of a NumPy file (.npy) of the field's dtype and rank, in C order. BF16 and F8 are
     * not NumPy types. With a path: a JSON array of numbers; not of F16, and rank is 1. */
    LOADER_FIELD_ARRAY,
    /* Dense, [items]. The stored text is a JSON value: */
    LOADER_FIELD_INT,  /* I64: an integer, without point or exponent */
    LOADER_FIELD_F32,  /* F32: a number, rounded to the nearest */
    LOADER_FIELD_F64,  /* F64: a number */
    LOADER_FIELD_BOOL, /* BOOL: true or false */
    /* I32: the token ids of a text as in LOADER_FIELD_STR, by tokenizer, between begin_token and
     * end_token. Without length, ragged. With it, dense, [items, length]: of a longer text, the
     * first tokens, and end_token; after a shorter one, pad_token. I32 [items] "NAME_length", where
     * NAME is the field's, then has the number of tokens before the padding. */
    LOADER_FIELD_TOKENS,
    /* What belongs to an image is cropped, resized, flipped and moved with it
     * (docs/reference/images.md). `follows` is "image", or a field of LOADER_FIELD_IMAGE that
     * follows none. */
    /* Dense, [items, height, width] of the field's dtype, U8, U16, I32 or I64: the class number of
     * each pixel. From a gray or palette PNG, whose levels or indexes are the numbers, or from a
     * NumPy file of U8 or U16 [height, width]. It is as large as the upright image. */
    LOADER_FIELD_LABELS,
    /* Ragged, F32 [n, 4]: x0, y0, x1, y1 in pixels of the image, without boxes that are cropped
     * away (visible_min). From a NumPy file of F32, F64, I32 or I64 [n, 4], or with a path, a JSON
     * array of arrays of 4 numbers. box_format states what the numbers are. */
    LOADER_FIELD_BOXES,
    /* Ragged, F32 [n, 3]: x, y and visibility. A point outside the image, or of visibility 0, is
     * 0, 0, 0. From a NumPy file like boxes, or with a path, a JSON array of arrays of 3 numbers,
     * or of 3 n numbers as in COCO. A flip does not exchange left and right points. */
    LOADER_FIELD_KEYPOINTS,
    /* Dense, U8 [items, height, width, 3], or what normalize requests; never mixed. Without
     * follows, it has a size, crop and augmentation of its own (image). With follows, such as a
     * depth map or the right image of a stereo pair, it is as large as the image that it follows,
     * stored and in the batch, and its colors are not augmented. */
    LOADER_FIELD_IMAGE,
};

/* The four numbers of a stored box. */
enum loader_box_format {
    LOADER_BOX_XYXY,   /* left, top, right, bottom */
    LOADER_BOX_XYWH,   /* left, top, width, height: COCO */
    LOADER_BOX_CXCYWH, /* center, width, height: YOLO, which normalizes them */
};

/* A field of each batch besides those of loader_options.decode. A sample is bad if it lacks the
 * field or if the field cannot be decoded. */
struct loader_field {
    const char *name; /* in the batch; unique */
    /* Extensions separated by `;`, such as "txt". Each sample uses the first that it has. */
    const char *from;
    enum loader_field_decode decode;
    enum dtype dtype; /* of LOADER_FIELD_ARRAY and LOADER_FIELD_LABELS */
    uint32_t rank;    /* of LOADER_FIELD_ARRAY: dimensions of each array, at most DTYPE_RANK_MAX */
    /* The stored field is a JSON document, and this selects the value, such as "$.boxes[0].label"
     * (base/json/jsonx_path.h). NULL: the whole field is the value. Not for bytes, labels and
     * images. Of arrays, boxes and keypoints, it may select the elements: "$.objects[*].bbox". */
    const char *path;
    /* Of integers, and of arrays of integers from JSON: a file of names as in struct loader_label.
     * The stored values are names in this list, or integers that it lists, and become their numbers
     * in it. An integer without a path is stored as a plain name. NULL: none. */
    const char *map;
    /* The value of samples that lack the field, or whose document lacks the value or has null
     * there, as stored text would give it: with map, a name of its list, which becomes its number,
     * or a negative integer, which stays. NULL: such a sample is bad. Of JSON arrays, only "[]"; of
     * LOADER_FIELD_JSON, any JSON text. Not for bytes, labels, images and NumPy files. */
    const char *default_value;
    /* The field that it follows. Labels, boxes and keypoints follow an image: "image" of
     * LOADER_IMAGE, which is not mixed, or a field that is an image and follows none. Other images
     * may. An array may follow boxes, such as their classes: its first dimension has an entry for
     * each stored box, and loses the entries of lost boxes. NULL: none. */
    const char *follows;
    /* Of tokens: the path of a tokenizer.json, or of a folder with GPT-2's encoder.json and
     * vocab.bpe (tokenizer/bpe.h); read during loader_open. A worker's tokenizer takes 2 MiB. */
    const char *tokenizer;
    const char *begin_token, *end_token; /* names such as "<|endoftext|>"; NULL: none */
    uint32_t length;                     /* at most LOADER_FIELD_LENGTH_MAX; 0: ragged */
    uint32_t length_min;                 /* a sample with fewer tokens is bad */
    uint32_t pad_token;
    enum loader_box_format box_format; /* of boxes */
    bool
        is_normalized; /* boxes, keypoints: fractions of the image's width and height, not pixels */
    /* Boxes of which less than this part of the area remains in the image are lost, as by
     * Albumentations' min_visibility. 0: those without any. At most 1. */
    double visible_min;
    /* Of an image. channels 0: bytes of interleaved RGB, whatever the other members. */
    struct normalize_options normalize;
    /* Of an image that follows none; of others, zeros. Its random choices depend on the seed, the
     * epoch, the sample and the field's name, but not on other fields. */
    struct {
        uint32_t width, height;   /* in the batch, 1 to 4096 */
        struct crop_options crop; /* as crop_options_default; zeros: the whole image, stretched */
        struct augment_options augment;
    } image;
};
enum { LOADER_FIELDS_MAX = 24, LOADER_FIELD_LENGTH_MAX = 1 << 20 };

/* Where the label of an image comes from. Zeros: the field "cls", a decimal class number (the class
 * names are the dataset's). A sample is bad if its label is not of the form described here. */
struct loader_label {
    const char *from; /* as in struct loader_field; NULL: "cls" */
    /* As in struct loader_field: selects an integer, or with map a string or an integer. */
    const char *path;
    /* A text file of class names: UTF-8, one per line, the first for class 0. The stored value is a
     * name from this list, or an integer that the list names. NULL: it is the class number. */
    const char *map;
};

/* Handling of unusable samples. Except under LOADER_BAD_STOP, a damaged plain tar yields its
 * complete samples (shards/format/plain_tar.h); loader_open logs and counts the omitted samples. */
enum loader_bad_policy {
    LOADER_BAD_STOP, /* the first bad sample or damaged tar is an error */
    /* Replaces the sample with another one, chosen deterministically (docs/reference/order.md),
     * with the replacement's own augmentation. The bad sample is logged, counted and listed. */
    LOADER_BAD_SUBSTITUTE,
    /* Leaves the item empty (batch_item.skipped). The bad sample is logged, counted and listed. The
     * digests of loader_cursor still include it; to exclude it, sum the digest terms yourself
     * (sampler.h). */
    LOADER_BAD_SKIP,
};

/* One dataset of a mix. */
struct loader_source {
    const char *path; /* like loader_options.dataset */
    uint64_t weight;  /* at least 1; only ratios matter (sampler/mix.h) */
};

/* Which samples of the dataset an epoch has. Zeros: all, each once. The files list samples by key,
 * one per line (loader/parts/name_list.h). Only members can be selected, not windows. keys, where
 * and balance may be combined: balance applies to the samples that the others leave. order and
 * weights may be combined only with repeat. Position numbers, sample_ref.sample and the digests
 * then count the selected samples: sample_ref.sample is the number in the selection
 * (loader/selection.h). */
struct loader_selection {
    const char *keys;  /* only these samples, in the order of loader_options.order */
    const char *order; /* these samples in this order, also repeatedly; replaces options.order */
    /* Draws these samples with replacement, with probabilities in proportion to their weights. An
     * epoch has as many draws as the file has lines. Replaces options.order. */
    const char *weights;
    /* Only the samples that meet this condition on their index fields (loader/parts/where.h). */
    const char *where;
    /* Draws samples with replacement so that all classes have the same probability, each sample of
     * a class too. "class", for the class numbers that `convert dataset` records, or the name of an
     * index field with integers. As many draws as samples. Replaces options.order. */
    const char *balance;
    uint64_t repeat; /* how often an epoch repeats the samples; 0: 1. Each time is a sample of its
                        own: with its own place in the order and its own augmentation. */
};

/* The meaning of labels and tokens. Borrows its strings. Of a record whose tokens all have one
 * tokenizer, the tokens are those of the record, not of the dataset. */
struct loader_schema {
    const char *path;           /* the dataset or checkpoint, for messages */
    const char *const *classes; /* class names by label */
    uint64_t classes_count;     /* 0: unknown names */
    const char *tokenizer;      /* NULL: not text */
    uint64_t tokenizer_xxh3;    /* hash of the tokenizer's files; 0: none or unknown */
    uint32_t vocabulary;
    uint32_t document_end; /* LOADER_NO_TOKEN: of a record, whose texts are documents */
};
#define LOADER_NO_TOKEN UINT32_MAX

/* True also if either has none. */
bool loader_has_same_document_end(const struct loader_schema *a, const struct loader_schema *b);

enum {
    LOADER_PIXELS_DEFAULT = 1 << 27, /* more than a 100-megapixel camera produces */
    LOADER_PIXELS_MAX = 1 << 28,
};

/* What happens if the caller keeps the fields of so many released batches (batch_field_retain) that
 * no memory is left for the next, or if the ragged fields of a micro-batch exceed all memory. */
enum loader_keep {
    LOADER_KEEP_ERROR, /* loader_next returns -ENOBUFS */
    LOADER_KEEP_GROW,  /* the loader allocates more, beyond memory_bytes, and logs a warning */
};

/* Immutable after open. loader_open copies strings. */
struct loader_options {
    /* Path of dataset.json or its folder, a tar, or a pattern of tars (dataset_open). */
    const char *dataset;
    /* A weighted mix of mix_count datasets; dataset must be NULL. An epoch has as many positions as
     * all datasets together have samples. Each dataset advances through its own epochs in its own
     * order (docs/reference/order.md). Their class names (images), tokens (text) or fields (bytes)
     * must agree. Borrowed during loader_open. */
    const struct loader_source *mix;
    uint32_t mix_count;
    /* Reads the datasets. NULL, or a backend that does not serve the first of them: the loader
     * opens one that does. All must have the same one. */
    struct io *io;
    struct device *device; /* allocates batch buffers in pinned memory; NULL: CPU */
    /* For an evaluation, the schema of the training data. If both schemas name their classes,
     * labels are mapped by class name to the reference's numbers; otherwise they are unchanged.
     * A class that the reference lacks or a different tokenizer is -EINVAL. NULL: no mapping.
     * Borrowed during loader_open. */
    const struct loader_schema *reference;

    /* Not with a mix. The cursor's fingerprint includes the selected samples. Borrowed during
     * loader_open, which reads the files and opens all shards to find the keys. */
    struct loader_selection selection;

    /* Sample order; zeros select defaults (order_params_resolve): as many lanes as a global batch
     * has samples, four times as many if `convert dataset` did not shuffle the dataset. */
    enum order_kind order;
    uint64_t seed, lanes, window, run;
    /* The global batch that default lanes follow from; 0: batching.global. Set it if the batch
     * changes during a run, so that the order doesn't. */
    uint64_t order_global;
    uint32_t epoch;    /* first epoch */
    uint64_t position; /* within the epoch, from the cursor; a partial step is completed first */
    /* The first micro-batches of that step to leave out, from the cursor. The ranks divide the
     * others; a rank may get none, but an empty batch. */
    uint64_t micros_done;
    uint64_t set_digest, sequence_digest; /* digests so far, from the cursor */
    /* Stop after this many positions of all ranks, from `position` on; micros_done does not reduce
     * them. 0: no limit. */
    uint64_t positions_max;
    uint64_t epochs_max; /* stop after this many epochs; 0: no limit */
    /* Drops an incomplete last step of an epoch, for training. If false, that step contains the
     * remaining samples. */
    bool drop_last;
    /* Fills that step with samples from the start of the epoch instead, so that all micro-batches
     * are full on all ranks. batch_item.is_padding marks them, and the field "valid", BOOL [items],
     * of images or tokens is false. The digests do not include them. Not with drop_last. */
    bool pad_last;

    struct batching batching;

    enum loader_decode decode;
    struct {
        /* Extensions separated by `;`, such as "jpg;jpeg;png;webp;ppm". Each sample uses the first
         * extension that it has. The content determines the format (JPEG, PNG, WebP, PPM). */
        const char *field;
        uint32_t width, height;
        struct crop_options crop;
        struct augment_options augment;
        /* Mixes each image with another of its micro-batch (docs/reference/images.md). */
        struct mixup_options mixup;
        /* Layout, type and channels of "image", for consumers without a kernel for that. Not with
         * mixup, which mixes bytes. Masks, boxes and keypoints are the same. */
        struct normalize_options normalize;
        struct loader_label label;
        bool requires_label; /* a sample without a label is bad */
        /* of "label" and "partner_label": DTYPE_I32, or DTYPE_I64 as PyTorch's losses take it */
        enum dtype label_dtype;
        /* A sample with a label at or above this limit is bad. loader_open returns -EINVAL if
         * the dataset or label.map names more classes. 0: only class names limit labels. */
        uint64_t classes;
        /* These two are also for LOADER_FIELD_IMAGE. A stored image with more pixels is a bad
         * sample. Bounds decoding memory: up to 12 bytes per pixel for a progressive JPEG. At most
         * LOADER_PIXELS_MAX; 0: LOADER_PIXELS_DEFAULT. */
        uint64_t pixels_max;
        /* Decode JPEGs with libjpeg only: slower, for comparison; the pixels are the same. */
        bool libjpeg_only;
    } image;
    struct {
        const char *field; /* extension, such as "npy" */
        uint32_t block;    /* input tokens; a sample has one more */
        /* Upper limit of token ids, exclusive; -EINVAL if the vocabulary is larger. 0: the
         * vocabulary. Also of the tokens of a record, if one tokenizer encodes all of them. */
        uint64_t vocabulary;
    } text;

    /* With LOADER_RECORD or LOADER_IMAGE: fields_count more fields of each batch, at most
     * LOADER_FIELDS_MAX. Other fields of the dataset are not read. */
    const struct loader_field *fields;
    uint32_t fields_count;

    enum loader_bad_policy bad_policy;
    /* Ends the run if more than one sample is bad and bad samples exceed this fraction of the
     * epoch's samples (or of delivered samples, if more). Counts from loader_open, not across
     * resumes. Samples left out of damaged tars count as bad. 1: no limit. */
    double bad_fraction_max;
    bool verify; /* check CRCs of the data read; on by default */

    /* Data need not stay in the page cache. Implied if the datasets exceed half of the available
     * memory, because no page would survive until the next epoch. */
    bool single_pass;
    /* Opens only what the order needs. Nothing is read ahead; loader_next returns -EINVAL. */
    bool order_only;
    /* Opens only what determines memory and shape. Nothing is read ahead; loader_next returns
     * -EINVAL. */
    bool memory_only;
    unsigned workers; /* decoding threads; 0: one per CPU */
    /* Limit on the sum of batch buffers, read-ahead, lists and scratch; 0: 1 GiB. A micro-batch
     * whose ragged fields find no memory waits for the release of earlier ones. Does not include
     * the indexes of open shards, the bytes of substitutes in unreleased batches and ragged fields
     * (at most memory_bytes again), what threads hold that read compressed shards (about 2 MiB each
     * for shards of millrace), or each worker's decoding memory beyond 2 MiB for "image" and for
     * each image field that follows none (bounded by image.pixels_max). */
    uint64_t memory_bytes;
    /* Micro-batches in preparation, 2 to 64. 0: starts small and grows on demand, within
     * memory_bytes. */
    unsigned batches_ahead;
    enum loader_keep keep;
    /* Receives one line per bad sample, per long wait, and if ranks share lanes, on the consumer's
     * thread. */
    const struct log *log;
    uint64_t stall_report_ns; /* log a wait this long with its cause; 0: 30 s; UINT64_MAX: never */
    /* End the run with -ETIMEDOUT after a wait this long; 0: never. For both, a call after -EINTR
     * continues the wait. */
    uint64_t timeout_ns;
    /* A wait ends soon after this returns true. The consumer's thread polls it about 20 times a
     * second under a lock, so it must not call the loader. NULL: never stop. */
    bool (*wants_stop)(const void *context);
    const void *stop_context;
    struct trace *trace; /* records the loader's threads; outlives the loader; NULL: no trace */
};

/* Returns options for LOADER_BYTES in shuffled order, with a global batch of 256 and micro-batches
 * of 32. Up to 1 % of samples may be bad and are substituted; memory is 1 GiB; images are 224 x 224
 * with a center crop. Setting an alpha for mixup or cutmix mixes all images; with both set, each
 * applies to half of them. */
struct loader_options loader_options_default(void);

/* Opens a loader. Returns -EINVAL with advice if options contradict each other or the dataset, if
 * the datasets of a mix disagree, or if memory is too small; or the error from opening a dataset.
 * Shards are opened on first use, except text shards whose member lengths dataset.json lacks
 * (windows.h) and, with options.fields, the first shard of each dataset (field sizes). */
int loader_open(const struct loader_options *options, struct loader **ret_loader, struct err *err);
/* Cancels reads in flight, waits for those that cannot be cancelled, and joins all threads. What
 * unreleased batches and fields need stays until their release, except that options.device and
 * options.io must stay open until then. NULL is fine. */
void loader_close(struct loader *loader);

enum { BATCH_FIELDS_MAX = 56 };

/* Memory of fields, reference-counted. Opaque. */
struct batch_memory;

/* One array of a batch. */
struct batch_field {
    const char *name;
    enum dtype dtype;
    uint32_t rank; /* number of dimensions */
    uint64_t shape[DTYPE_RANK_MAX];
    int64_t stride_bytes[DTYPE_RANK_MAX];
    void *data;
    struct device *device; /* holds data; NULL: host memory */
    /* Of a ragged field, else NULL and 0. data has one dimension: the values of all items in their
     * order, without gaps. Item i has the values offsets[i] to offsets[i + 1] - 1, in C order; its
     * shape is shapes[i * item_rank] to shapes[(i + 1) * item_rank - 1]. A skipped item has no
     * values; its shape is all zeros. */
    int64_t *offsets; /* [items + 1] */
    int64_t *shapes;  /* [items, item_rank]; in values, not bytes */
    uint32_t item_rank;
    struct batch_memory *memory; /* of data, offsets and shapes */
};

/* One stored field of one sample (LOADER_BYTES). */
struct batch_bytes {
    const char *extension;
    const void *data;
    uint64_t bytes;
};

struct batch_item {
    uint64_t position; /* within the epoch; of padding, beyond its samples */
    /* The sample at this position in the order, even if a substitute replaced it. The epoch is
     * that of ref.dataset. */
    struct sample_ref ref;
    const char *key; /* not NUL-terminated; for a window, the member's key */
    uint32_t key_bytes;
    int64_t window;  /* index within its member; -1: not a window */
    bool is_padding; /* options.pad_last: repeats a sample of the epoch */
    bool substituted;
    /* LOADER_BAD_SKIP: the item has no fields, and its part of the batch's arrays is
     * unspecified. */
    bool skipped;
    const struct batch_bytes *fields; /* LOADER_BYTES only: fields_count entries */
    uint32_t fields_count;
};

/* The consumer owns it until loader_release, and may write into the fields' data. The rest, and
 * the items' stored bytes, are read-only. */
struct batch {
    uint32_t epoch;
    uint64_t step;     /* within the epoch */
    uint64_t micro;    /* micro-batch number within the step */
    bool last_of_step; /* this rank's last micro-batch of the step */
    /* options.batching.micro; fewer, possibly 0, if the start of the run, positions_max or the end
     * of the epoch shortens the step. */
    uint32_t items_count;
    const struct batch_item *items;
    struct batch_field fields[BATCH_FIELDS_MAX];
    uint32_t fields_count;
};

/* Returns NULL if the batch has no such field. */
const struct batch_field *batch_field_named(const struct batch *batch, const char *name);

/* Blocks until the next micro-batch is ready. Returns LOADER_BATCH and sets *ret_batch,
 * LOADER_END after the last one, or -errno:
 *   -EINTR     options.wants_stop returned true; loader_next may be called again
 *   -ENOBUFS   the caller's batches or fields hold all memory; release one and call again
 *   otherwise  final, only loader_close may follow: -ETIMEDOUT, a bad sample (-EBADMSG) under
 *              LOADER_BAD_STOP, too many bad samples, an I/O error or missing shard (never
 *              substituted), or a sample or a micro-batch's ragged fields larger than the memory
 *              (the latter only under LOADER_KEEP_ERROR)
 * Batches before the failing one are delivered first. */
enum { LOADER_END = 0, LOADER_BATCH = 1 };
int loader_next(struct loader *loader, const struct batch **ret_batch, struct err *err);
/* True if loader_next would not block. When sizing its read-ahead, the loader treats a false result
 * as a wait. If the caller's batches hold memory or files that the next batch needs, the result
 * stays false until one is released; only loader_next reports that error. */
bool loader_ready(struct loader *loader);
/* Adds a reference to the batch, which loader_next returns with one. */
void loader_retain(struct loader *loader, const struct batch *batch);
/* Ends one reference. The last one makes the batch's memory available again. Each batch must be
 * released, in any order, from any thread, before or after loader_close. A batch that is held also
 * holds back the memory of later ones, up to all: loader_next then returns -ENOBUFS. */
void loader_release(struct loader *loader, const struct batch *batch);

/* Keeps a field's data after its batch is released, and after the loader is closed. The large
 * fields ("image", "tokens", LOADER_FIELD_LABELS, LOADER_FIELD_IMAGE) of a batch share one memory,
 * the small ones another, and each ragged field has its own: a kept label keeps no image. Returns a
 * reference to be released, from any thread. */
struct batch_memory *batch_field_retain(const struct batch_field *field);
void batch_memory_release(struct batch_memory *memory); /* NULL is fine */
/* Call it before the last release, if a stream of options.device still uses the memory: for
 * example, copies it to a GPU. The loader then reuses the memory only when all that has been queued
 * on the stream is done. memory: a batch_field's, or a retained one; NULL is fine. An error from
 * the device; wait for the stream before the release, then. */
int batch_memory_record_stream(struct batch_memory *memory, struct device_stream *stream,
                               struct err *err);

/* Returns the cursor to store in a checkpoint: it points just past the last *step* for which
 * loader_next has returned every micro-batch. The digests cover this rank's micro-batches; sum them
 * over ranks. */
struct cursor loader_cursor(const struct loader *loader);
/* Returns a cursor just past the last micro-batch that loader_next has returned, also in the middle
 * of a step (micros_done), if the ranks deliver a step's micro-batches in their order: if they are
 * interleaved (struct batching) or there is one rank. Otherwise, and in a step that positions_max
 * ends early, the same as loader_cursor. Except for the digests, it is the same on all ranks after
 * equally many batches, if the number of ranks divides the micro-batches of a step, or those left
 * of it (options.micros_done). If not, the ranks with fewer of them are at the next step too early,
 * and only loader_cursor is safe in this step. A run with another number of ranks may resume from
 * it. */
struct cursor loader_cursor_in_step(const struct loader *loader);

/* The resolved order, and sizes. */
struct loader_shape {
    /* For a mix, with window and run as requested; loader_datasets has each dataset's order. */
    struct order_params order;
    uint64_t fingerprint;   /* for a mix, covers all datasets and weights */
    uint64_t samples;       /* per epoch: members or windows of all datasets */
    uint64_t steps;         /* global batches per epoch, excluding a dropped tail */
    uint64_t classes_count; /* labels are below this; the reference's count if mapped; 0: unknown */
    uint32_t vocabulary;    /* text: token ids are below this */
    uint32_t document_end;  /* text: token that ends a document; LOADER_NO_TOKEN: none */
    uint32_t pixels_version; /* image pipeline version, which determines the pixels; 0: none */
    /* Decoding libraries with versions; "" if none. Lives as long as the loader. */
    const char *pixels_libraries;
    uint64_t memory_bytes; /* allocated so far, within the budget */
    const char *engine;    /* I/O engine */
    uint32_t workers;      /* decoding threads */
};
struct loader_shape loader_shape(const struct loader *loader);

/* Returns the dataset's own schema, without options.reference. Lives as long as the loader. */
const struct loader_schema *loader_schema(const struct loader *loader);

/* One dataset of the loader, indexed by sample_ref.dataset. */
struct loader_dataset {
    const char *path; /* dataset.json, the tar, or the pattern */
    uint64_t weight;  /* reduced; 1 for a single dataset */
    uint64_t fingerprint;
    struct order_params order; /* samples: per epoch of this dataset */
    uint64_t delivered_count;  /* samples in batches returned so far */
};
/* Returns the number of datasets. The list lives as long as the loader; loader_next updates its
 * counts. */
uint32_t loader_datasets(const struct loader *loader, const struct loader_dataset **ret_list);

/* Computes how well a global batch is mixed relative to a full shuffle: 1 is equal, near 0 is
 * sequential (sampler/quality.h). Computed from the order only; takes about 3 ms per dataset and
 * is accurate to within 2 %. -ENOMEM. */
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
    uint64_t read_bytes, reads_count;      /* after merging; includes bytes read only to verify */
    uint64_t wanted_bytes;                 /* the part of read_bytes that belongs to samples */
    uint64_t bad_samples_count, jpeg_warnings_count;
    uint64_t
        left_out_count;   /* members lost in damaged tars; a tar's unreadable rest counts as one */
    uint64_t ahead_count; /* micro-batches in preparation or ready */
    uint64_t first_batch_ns;               /* from loader_open to the first batch; 0 before */
    uint64_t wait_ns;                      /* time that loader_next blocked */
    uint64_t decode_cpu_ns;                /* sum over workers */
    uint64_t stage_ns[LOADER_STAGE_COUNT]; /* time that other stages waited for this one */
    enum loader_stage limit;               /* the stage with the largest stage_ns */
};
struct loader_stats loader_stats(const struct loader *loader);

/* Returns the number of listed bad samples. Lists the first LOADER_QUARANTINE_MAX, oldest first.
 * Their strings live as long as the loader. */
enum { LOADER_QUARANTINE_MAX = 1024 };
struct loader_bad_sample {
    struct sample_ref ref;
    uint64_t substitute; /* the replacement; the sample itself if skipped */
    const char *reason;
};
uint64_t loader_quarantine(const struct loader *loader, const struct loader_bad_sample **ret_list);

/* Applies bad_fraction_max to the combined counts of several ranks' loaders, each opened with
 * bad_fraction_max 1 on the same data. Also counts the samples left out of damaged tars, once for
 * all ranks. -EBADMSG: too many bad samples. */
int loader_check_bad_fraction(const struct loader *loader, double fraction_max, uint64_t bad_count,
                              uint64_t delivered_count, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
