/*
 * options — options of `convert dataset` (dataset.h).
 */
#ifndef MILLRACE_CONVERT_OPTIONS_H
#define MILLRACE_CONVERT_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "io/io.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONVERT_SHARD_BYTES_DEFAULT = 256 << 20 };

enum convert_jpeg {
    /* lossless transcoding for partial decoding (image/jpeg/jpeg_tile.h) */
    CONVERT_JPEG_TILE,
    CONVERT_JPEG_KEEP,     /* byte for byte */
    CONVERT_JPEG_REENCODE, /* decoded, scaled down, and encoded */
};

enum convert_store {
    CONVERT_STORE_ENCODED, /* images other than JPEG unchanged */
    CONVERT_STORE_RAW,     /* all images become PPM */
};

enum convert_split_folders {
    /* splits if all names are like train, val and test; else classes */
    CONVERT_SPLIT_FOLDERS_AUTO,
    CONVERT_SPLIT_FOLDERS_YES, /* all folders are splits */
    CONVERT_SPLIT_FOLDERS_NO,  /* all folders are classes */
};

/* The form of the output. */
enum convert_format {
    CONVERT_FORMAT_SHARDS,
    CONVERT_FORMAT_TAR,    /* tars without an index, and dataset.json */
    CONVERT_FORMAT_FOLDER, /* a file for each field (convert/dataset/export_folder.h) */
};

enum { CONVERT_SPLITS_MAX = 16, CONVERT_SPLIT_NAME_BYTES_MAX = 64 };

struct convert_split {
    char name[CONVERT_SPLIT_NAME_BYTES_MAX];
    double fraction; /* fractions sum to 1; 0: a split of the source */
};

/* Borrowed strings. */
struct convert_string_list {
    const char *const *items;
    size_t count;
};

struct io;
struct sample_stream;

struct convert_options {
    const char *source, *target;
    struct io *source_io; /* reads the source; NULL: the backend of the target */
    /* The source, if it is a stream of samples (convert/source/sample_stream.h), which source then
     * only names; else NULL. */
    struct sample_stream *stream;
    enum convert_format format;
    uint64_t shard_bytes;   /* 0: 256 MiB */
    uint64_t shard_samples; /* 0: no limit */
    int zstd_level;         /* of compressed shards (io/zstd/frame_writer.h); 0: not compressed */
    enum convert_jpeg jpeg;
    enum convert_store store;
    uint32_t max_side; /* for reencode and raw; 0: unlimited */
    uint32_t quality;  /* for reencode, even without scaling; 0: 90 */
    uint64_t seed;
    bool keep_order; /* false: shuffle items, keyed by seed, except of sources with an order */
    bool shuffle;    /* shuffle items also of sources with an order; not with keep_order */
    /* (seed, key) determines an item's split. */
    struct convert_split splits[CONVERT_SPLITS_MAX];
    uint32_t splits_count; /* 0: one dataset at target, or one per split folder */
    enum convert_split_folders split_folders;
    struct convert_string_list
        ignore_globs; /* globs over names, or, with a slash, over relative paths */
    /* Extensions that become fields. Empty: photos and their companion files. */
    struct convert_string_list fields;
    /* Which columns of a list become which fields (convert/source/columns.h). Empty: a choice by
     * their names and first values. */
    struct convert_string_list columns;
    /* Numbers to record in the index (convert/source/index_fields.h). */
    struct convert_string_list index_fields;
    const char *tokenizer;  /* text: "bytes" (NULL), "gpt2", or the path of a tokenizer.json */
    const char *vocabulary; /* "gpt2": folder of encoder.json and vocab.bpe; else NULL */
    /* tokenizer.json: a token; NULL: see bpe_open_json. Token files without tokenizer: its id. */
    const char *document_end;
    uint32_t vocabulary_size;   /* token files without tokenizer; 0: known from the files */
    bool skip_errors;           /* false: the first bad item ends the conversion */
    int64_t errors_max;         /* skip_errors: limit on skipped items; -1: none */
    double errors_max_fraction; /* skip_errors: limit as a fraction of all items; 0: none */
    unsigned workers;           /* 0: one per CPU */
    bool resume, force;
    const atomic_int *stop; /* nonzero: stop with -EINTR; may be NULL */
    const struct log *log;
    /* Called periodically by one thread; may be NULL. items, bytes: 0 if they are not known. */
    void (*progress)(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                     uint64_t bytes);
    void *progress_context;
};

#endif
