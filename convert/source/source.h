/*
 * source — the interface of a data source: lists items, then reads each item's fields.
 *
 * An item becomes one sample. A source implements struct source_ops in one file and has one row in
 * the table of source.c.
 *
 *     source_probe(io, &options, &ops, err);                 // also detects split folders
 *     source_open(io, &options, ops, &source, err);          // lists the items
 *     for (position = 0; position < source->items; position++)
 *         source_describe(source, position, &item);          // key, class, split, bytes; no I/O
 *     source_reader_open(source, io, &reader, err);          // one per thread
 *     reader.source->ops->read(&reader, &item, &sample, err);
 */
#ifndef MILLRACE_CONVERT_SOURCE_SOURCE_H
#define MILLRACE_CONVERT_SOURCE_SOURCE_H

#include "base/str.h"
#include "convert/options.h"
#include "shards/format/index.h"

struct dataset_text;
struct jsonx_writer;

enum {
    SOURCE_ITEM_BYTES_MAX = 1 << 30, /* of all fields of one item, which is held in memory */
    SOURCE_NO_CLASS = UINT32_MAX,
};

/* What the names in a source reveal, without hidden and ignored ones. */
struct source_layout {
    const char *file; /* the source, if it is a file; NULL: a folder */
    /* A folder's contents: files that end in .txt, other files, folders. */
    bool has_text, has_other, has_folders;
    bool has_tokenizer; /* --tokenizer was given */
};

/* Immutable once open; any thread. */
struct source {
    const struct source_ops *ops;
    const struct convert_options *options; /* borrowed */
    void *state;                           /* the implementation's */
    /* The rest is set by ops->open. */
    uint64_t items;
    uint64_t bytes;    /* of all items, when listed */
    uint64_t identity; /* hash of the input's names and sizes, the same for a copy of the files */
    char **classes;    /* in byte order; freed by source_close */
    uint64_t classes_count;
    uint64_t hidden_count, ignored_count; /* files and folders that were skipped */
};

struct source_item {
    char key[SHARD_KEY_BYTES_MAX];
    uint32_t split;
    uint32_t class_number; /* in classes; or SOURCE_NO_CLASS */
    uint64_t number;       /* in the source's list */
    uint64_t bytes;        /* progress and memory limits count these */
};

struct sample_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    size_t at, bytes; /* in data */
    size_t path_at;   /* in data: where the field came from, for errors; NUL-terminated */
};

/* An item's fields as read. Zero is empty. */
struct source_sample {
    struct str data;
    uint32_t fields_count;
    struct sample_field fields[SHARD_FIELDS_MAX];
};

/* Owner thread. */
struct source_reader {
    const struct source *source; /* borrowed */
    struct io *io;
    struct io_queue *queue;
    void *state; /* the implementation's */
};

/* Hooks are required unless marked optional. */
struct source_ops {
    const char *name; /* "source_kind" in dataset.json */
    /* Items are consecutive parts of one stream: they are never shuffled, none can be skipped, and
     * split folders are not supported. */
    bool is_stream;

    /* Whether this source converts such a layout. No I/O. The first match in the table wins. */
    bool (*probe)(const struct source_layout *layout);
    /* Lists the items of options->source in an order that depends on the input alone, and sets the
     * fields of source. Logs what it leaves out; returns -EINTR soon after *options->stop is set.
     * May block and use options->workers threads. After a failure, close is called. */
    int (*open)(struct io *io, struct source *source, struct err *err);
    /* Frees source->state, which may be NULL or incomplete. */
    void (*close)(struct source *source);
    /* Sets key, split and bytes, and class_number if there is one. Keys are relative paths
     * without a dot in the last part, and differ within a split. No I/O; any thread. */
    void (*describe)(const struct source *source, uint64_t number, struct source_item *item);
    /* Appends the item's fields to the empty sample (source_end_field), unencoded, without the
     * class. The whole source has fewer than SHARD_FIELDS_MAX different extensions. Any thread,
     * each with its own reader. Blocks. -ESTALE if the input changed after it was listed; -EBADMSG
     * if the item is damaged. */
    int (*read)(struct source_reader *reader, const struct source_item *item,
                struct source_sample *sample, struct err *err);

    /* Optional: create and free reader->state. reader_close: the state may be NULL. */
    int (*reader_open)(struct source_reader *reader, struct err *err);
    void (*reader_close)(struct source_reader *reader);
    /* Optional, streams: the options that affect bytes, instead of those for images. */
    void (*write_options)(const struct source *source, struct jsonx_writer *json);
    /* Optional, streams: describes a split's tokens. */
    void (*fill_text)(const struct source *source, uint32_t split, struct dataset_text *text);
};

extern const struct source_ops source_text_ops, source_classes_ops, source_files_ops;

/* Chooses the source from the first two levels of options->source. If its folders are splits, adds
 * them to the splits of options, each with the fraction 0. -ENOTSUP names an unsupported format;
 * -EINVAL: the folders are ambiguous, or they are splits and options has others. */
int source_probe(struct io *io, struct convert_options *options, const struct source_ops **ret_ops,
                 struct err *err);
/* The first row of the table that matches; NULL: none. */
const struct source_ops *source_find(const struct source_layout *layout);

/* Lists options->source; options must outlive the source. -EEXIST names two files with the same
 * key; -ENOTSUP: files that belong to no sample, each type of which is logged; -ENODATA: nothing to
 * convert. */
int source_open(struct io *io, const struct convert_options *options, const struct source_ops *ops,
                struct source **ret_source, struct err *err);
void source_close(struct source *source); /* NULL is fine */

/* The item at a position of the output order: shuffled, keyed by the seed, unless the source is a
 * stream or options keep the order. */
void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item);
/* Chooses a key's split by the key's hash, independently of the other items. */
uint32_t source_choose_split(const struct convert_options *options, const char *key);

int source_reader_open(const struct source *source, struct io *io, struct source_reader *ret_reader,
                       struct err *err);
void source_reader_close(struct source_reader *reader); /* zero is fine */

/* Adds a field: everything appended to sample->data after the first `start` bytes. */
void source_end_field(struct source_sample *sample, const char *extension, size_t start,
                      const char *path);

/* Whether the folders in the root are splits. Splits of --split have fractions. */
static inline bool source_has_split_folders(const struct convert_options *options)
{
    return options->splits_count > 0 && options->splits[0].fraction == 0;
}

#endif
