/*
 * options — the options of `convert dataset`. See dataset.h.
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
    /* transcoded without loss, so that parts can be cut out (image/jpeg/jpeg_tile.h) */
    CONVERT_JPEG_TILE,
    CONVERT_JPEG_KEEP,     /* byte for byte */
    CONVERT_JPEG_REENCODE, /* decoded, scaled down, encoded again */
};

enum convert_store {
    CONVERT_STORE_ENCODED, /* JPEGs as jpeg says, other images as they are */
    CONVERT_STORE_RAW,     /* all images decoded, as PPM */
};

/* The meaning of folders in the source. */
enum convert_split_folders {
    /* splits if all have names like train, val and test; else classes */
    CONVERT_SPLIT_FOLDERS_AUTO,
    CONVERT_SPLIT_FOLDERS_YES, /* splits, whatever their names */
    CONVERT_SPLIT_FOLDERS_NO,  /* classes, whatever their names */
};

enum { CONVERT_SPLITS_MAX = 16, CONVERT_SPLIT_NAME_BYTES_MAX = 64 };

struct convert_split {
    char name[CONVERT_SPLIT_NAME_BYTES_MAX];
    double fraction; /* fractions sum to 1; 0 for the source folder of that name */
};

/* Borrowed strings. */
struct convert_list {
    const char *const *items;
    size_t count;
};

/* Immutable during the conversion. */
struct convert_options {
    const char *source, *target; /* paths */
    uint64_t shard_bytes;        /* 0: 256 MiB */
    uint64_t shard_samples;      /* 0: no limit */
    enum convert_jpeg jpeg;
    enum convert_store store;
    uint32_t max_side; /* reencode, raw; 0: unlimited */
    uint32_t quality;  /* reencode; 0: 90. Smaller pictures are reencoded too */
    uint64_t seed;
    bool keep_order; /* else items are shuffled, keyed by seed */
    /* An item's split is keyed by (seed, key). */
    struct convert_split splits[CONVERT_SPLITS_MAX];
    uint32_t splits_count; /* 0: one dataset, at target itself, or one per split folder */
    enum convert_split_folders split_folders;
    struct convert_list ignores; /* globs: of names, or, with a slash, of relative paths */
    /* Extensions that become fields; none: photos and their companion files. */
    struct convert_list fields;
    const char *tokenizer;      /* text: "bytes" (or NULL), "gpt2" */
    const char *vocabulary;     /* "gpt2": the folder of encoder.json and vocab.bpe; else NULL */
    bool skip_errors;           /* else the first error ends the conversion */
    int64_t errors_max;         /* with skip_errors: how many are skipped; -1: no limit */
    double errors_max_fraction; /* the same as a fraction of all items; 0: no limit */
    unsigned workers;           /* 0: one per CPU */
    bool resume, force;
    const atomic_int *stop; /* nonzero: stop soon with -EINTR; NULL: never */
    const struct log *log;  /* names each skipped item */
    /* Called periodically from one thread; may be NULL. */
    void (*progress)(void *context, uint64_t items_done, uint64_t items, uint64_t bytes_done,
                     uint64_t bytes);
    void *progress_context;
};

#endif
