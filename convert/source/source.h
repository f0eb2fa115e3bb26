/*
 * source — interface of a data source: lists items, then reads their fields.
 *
 * An item becomes a sample. Sources implement struct source_ops and are listed in source.c.
 *
 *     source_probe(io, &options, &ops, err);                 // also detects split folders
 *     source_open(io, &options, ops, &source, err);          // lists the items
 *     for (position = 0; position < source->items_count; position++)
 *         source_describe(source, position, &item);          // key, class, split, bytes; no I/O
 *     source_reader_open(source, io, &reader, err);          // one per thread
 *     reader.source->ops->read(&reader, &item, &sample, err);
 */
#ifndef MILLRACE_CONVERT_SOURCE_SOURCE_H
#define MILLRACE_CONVERT_SOURCE_SOURCE_H

#include "base/str.h"
#include "convert/options.h"
#include "convert/source/index_fields.h"
#include "shards/format/index.h"

struct dataset_text;
struct jsonx_writer;
struct sample_stream;

enum {
    SOURCE_ITEM_BYTES_MAX = 1 << 30, /* limit on an item's size; items are held in memory */
    SOURCE_NO_CLASS = UINT32_MAX,
    SOURCE_HEAD_BYTES = 64 << 10,
};

#define SOURCE_COUNT_UNKNOWN UINT64_MAX

/* Names in a source, except hidden and ignored ones. */
struct source_layout {
    const char *file; /* the source itself; NULL if it is a folder */
    const char *head; /* the file's first bytes, at most SOURCE_HEAD_BYTES; NULL for a folder */
    size_t head_bytes;
    /* What a folder contains: .txt files, other files, folders. */
    bool has_text_files, has_other_files, has_folders;
    bool has_metadata; /* metadata.csv or metadata.jsonl, as in Hugging Face's ImageFolder */
    bool has_tars, has_dataset; /* tars are not other files; dataset.json */
    bool has_archives;          /* compressed tars and zips, which are not other files */
    bool has_tfrecords, has_mds, has_chunks; /* record files, which are not other files */
    bool has_tokenizer;                      /* --tokenizer was given */
    bool has_tokens;                         /* token files (tokens_detect), and nothing else */
    bool has_coco, has_voc, has_yolo; /* a folder of images with annotations in this layout */
    /* Files that array_format_of_name (array_names.h) knows, which are other files too: bit i for
     * format i; and whether there are any but those. */
    unsigned array_formats;
    bool has_other_than_arrays;
};

/* Immutable once open; usable from any thread. */
struct source {
    const struct source_ops *ops;
    const struct convert_options *options; /* borrowed */
    void *state;                           /* private */
    /* Those of the options; ops->open may add some. */
    struct index_fields index_fields;
    /* Set by ops->open: */
    uint64_t items_count; /* SOURCE_COUNT_UNKNOWN: until the last item has been read */
    uint64_t bytes;       /* size of all items when listed; 0: not known */
    uint64_t identity;    /* hash of the input's names and sizes */
    char **classes;       /* in byte order */
    uint64_t classes_count;
    uint64_t hidden_count, ignored_count;
    bool was_shuffled; /* the source's order is already a random one */
};

struct source_item {
    char key[SHARD_KEY_BYTES_MAX];
    uint32_t split;
    uint32_t class_number; /* index into classes, or SOURCE_NO_CLASS */
    uint64_t number;
    uint64_t bytes; /* for progress and memory limits */
};

struct sample_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    size_t at, bytes; /* range in data */
    size_t path_at;   /* offset in data of the field's source path, for errors; NUL-terminated */
};

/* Zero-initialize. */
struct source_sample {
    struct str data;
    uint32_t fields_count;
    struct sample_field fields[SHARD_FIELDS_MAX];
};

/* Use from one thread only. */
struct source_reader {
    const struct source *source; /* borrowed */
    struct io *io;
    struct io_queue *queue;
    void *state;
};

/* Hooks are required unless marked optional. */
struct source_ops {
    const char *name; /* "source_kind" in dataset.json */
    /* Items are parts of one stream: never shuffled or skipped. No split folders. */
    bool is_stream;
    /* Items are samples already: they keep their order unless the options shuffle, images that the
     * options do not change are copied without decoding them, and their extensions are kept. No
     * split folders. */
    bool is_ordered;
    /* Items are read in increasing order of their numbers, by one reader; some may be skipped. They
     * cannot be shuffled. */
    bool is_sequential;
    bool has_columns; /* the option for columns applies, and those for files do not */

    /* Whether this source can convert the layout. No I/O. The first match in the table wins. The
     * source of streams is not in it. */
    bool (*probe)(const struct source_layout *layout);
    /* Optional: adds the splits that files or arrays state by their names or content, if there are
     * any, to options (source_add_split). No split folders. Blocks. */
    int (*find_splits)(struct io *io, struct convert_options *options, struct err *err);
    /* Lists the items of options->source in an order that depends only on the input, and sets the
     * fields of source. Logs skipped files. Returns -EINTR soon after *options->stop is set. May
     * block and use options->workers threads. close is called even after a failure. */
    int (*open)(struct io *io, struct source *source, struct err *err);
    /* Frees source->state, which may be NULL or incomplete. */
    void (*close)(struct source *source);
    /* Sets key, split and bytes, and class_number if known. Keys are relative paths without a dot
     * in the last part, unique within a split. No I/O; called from any thread. */
    void (*describe)(const struct source *source, uint64_t number, struct source_item *item);
    /* Appends the item's unencoded fields, except the class, to the empty sample
     * (source_end_field). A source has at most SHARD_FIELDS_MAX extensions in total, with the
     * class. Called from any thread, each with its own reader, unless is_sequential. Blocks.
     * -ESTALE: the input has changed since it was listed; -EBADMSG: the item is damaged. */
    int (*read)(struct source_reader *reader, const struct source_item *item,
                struct source_sample *sample, struct err *err);

    /* Instead of describe and read, of a sequential source whose items are not known before they
     * are read: describes and reads the next one, of this position. Returns 1, 0 after the last
     * item, -EAGAIN if none has begun to arrive for a short time, or an error, after which nothing
     * can be read. Blocks. */
    int (*next)(struct source_reader *reader, uint64_t position, struct source_item *item,
                struct source_sample *sample, struct err *err);

    /* Optional: create and free reader->state, which may be NULL in reader_close. */
    int (*reader_open)(struct source_reader *reader, struct err *err);
    void (*reader_close)(struct source_reader *reader);
    /* Optional, streams only: writes the options that affect a stream's bytes. They replace the
     * image options. */
    void (*write_options)(const struct source *source, struct jsonx_writer *json);
    /* Optional, streams only: describes a split's tokens. */
    void (*fill_text)(const struct source *source, uint32_t split, struct dataset_text *text);
};

extern const struct source_ops source_stream_ops, source_archive_ops, source_shards_ops,
    source_tfrecord_ops, source_mds_ops, source_litdata_ops, source_coco_ops, source_voc_ops,
    source_yolo_ops, source_table_ops, source_numpy_ops, source_beton_ops, source_idx_ops,
    source_cifar_ops, source_text_ops, source_tokens_ops, source_classes_ops, source_files_ops;

/* Chooses the source: options->stream, or from the names on the first two levels of
 * options->source. Adds split folders to the options with fraction 0, and sets keep_order for a
 * source that keeps its order. -ENOTSUP names an unsupported format. -EINVAL: the folders are
 * ambiguous, or conflict with the splits in options. */
int source_probe(struct io *io, struct convert_options *options, const struct source_ops **ret_ops,
                 struct err *err);
/* Adds a split that the source has, with fraction 0. -EINVAL: too many, or too long a name. */
int source_add_split(struct convert_options *options, const char *name, struct err *err);
/* Returns the first match in the table, or NULL. */
const struct source_ops *source_find(const struct source_layout *layout);

/* Whether a file is a token file of llm.c or Megatron-LM. Errors of reading it. */
int tokens_detect(struct io *io, const char *path, bool *ret_has_tokens, struct err *err);

/* Lists options->source; options must outlive the source. -EEXIST names two files with the same
 * key; -ENOTSUP: some files belong to no sample (logged by type); -ENODATA: nothing to convert. */
int source_open(struct io *io, const struct convert_options *options, const struct source_ops *ops,
                struct source **ret_source, struct err *err);
void source_close(struct source *source); /* NULL is fine */

/* Describes the item at a position in the output order. Items are shuffled with the seed, unless
 * the source is a stream or options keep the order. */
void source_describe(const struct source *source, uint64_t position, struct source_item *ret_item);
/* Depends only on the key's hash and the options. */
uint32_t source_choose_split(const struct convert_options *options, const char *key);

int source_reader_open(const struct source *source, struct io *io, struct source_reader *ret_reader,
                       struct err *err);
void source_reader_close(struct source_reader *reader); /* reader may be zeroed */

/* Adds a field: the range of sample->data, which may have other bytes between fields. */
void source_add_field(struct source_sample *sample, const char *extension, size_t at, size_t bytes,
                      const char *path);
/* Adds a field: the bytes of sample->data from `start` on. */
void source_end_field(struct source_sample *sample, const char *extension, size_t start,
                      const char *path);

static inline bool source_layout_has_others(const struct source_layout *layout)
{
    return layout->has_text_files || layout->has_other_files || layout->has_folders ||
           layout->has_tfrecords || layout->has_mds || layout->has_chunks;
}

/* A folder of shards or tars, and of nothing else. */
static inline bool source_layout_has_shards(const struct source_layout *layout)
{
    return layout->has_dataset ||
           (layout->has_tars && !layout->has_archives && !source_layout_has_others(layout));
}

/* A folder of compressed tars or zips, perhaps with tars, and of nothing else. */
static inline bool source_layout_has_archives(const struct source_layout *layout)
{
    return layout->has_archives && !source_layout_has_others(layout);
}

/* A folder of record files of one kind, and of nothing else. */
static inline bool source_layout_has_records(const struct source_layout *layout)
{
    return layout->has_tfrecords + layout->has_mds + layout->has_chunks == 1 &&
           !layout->has_text_files && !layout->has_other_files && !layout->has_folders &&
           !layout->has_tars && !layout->has_archives && !layout->has_dataset &&
           !layout->has_metadata;
}

/* Whether the source has splits of its own: split folders or lists. Those from --split have nonzero
 * fractions. */
static inline bool source_has_split_folders(const struct convert_options *options)
{
    return options->splits_count > 0 && options->splits[0].fraction == 0;
}

#endif
