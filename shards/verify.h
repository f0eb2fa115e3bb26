/*
 * verify — every byte of a shard or dataset against every checksum and count there is.
 *
 * One pass over the file, in order, with bounded memory: the tar headers are walked and must name
 * what the index names, where it says; each field's CRC32C and block CRCs, padding, the end of the
 * archive and, where dataset.json tells it, the XXH3 of the whole file are checked; keys are unique
 * within a shard; where it is asked for, each sample has all fields. Whoever wants to decode
 * members gets each one's bytes.
 */
#ifndef MILLRACE_SHARDS_VERIFY_H
#define MILLRACE_SHARDS_VERIFY_H

#include "shards/dataset.h"

#include <stdatomic.h>

enum {
    VERIFY_BUFFER_BYTES = 1 << 20, /* of the file at a time */
    VERIFY_MEMBER_BYTES_MAX =
        256 << 20, /* larger members are checked, but not handed to `member` */
};

/* What a problem is about. */
enum verify_kind {
    VERIFY_CHECKSUM,
    VERIFY_ARCHIVE, /* the tar, its index, sizes and counts */
    VERIFY_FIELDS,  /* of a sample, other than the label */
    VERIFY_LABEL,   /* missing, no number, or out of range */
    VERIFY_IMAGE,
    VERIFY_TOKENS,
    VERIFY_KIND_COUNT
};
const char *verify_kind_name(enum verify_kind kind); /* "checksum" */

/* One thing that is wrong. Lives during the call. */
struct verify_problem {
    enum verify_kind kind;
    const char *path;      /* of the shard, or of dataset.json */
    const char *key;       /* of the sample, "" where it is not about one */
    const struct err *err; /* what, path, offset, expected, found */
};

/* A member whose CRC holds. Lives during the call. */
struct verify_member {
    const char *path, *key, *extension;
    uint64_t offset; /* of its data in the shard */
    const void *data;
    uint64_t size_bytes;
    struct shard_picture picture; /* what the index says of its rows */
};

/* Immutable. Callbacks come from the calling thread. */
struct verify_options {
    void (*problem)(void *context, const struct verify_problem *problem); /* may be NULL */
    /* What is odd in a tar of another tool, though its readers take it: no end, a field that is a
     * sparse file. May be NULL. */
    void (*note)(void *context, const struct verify_problem *note);
    /* May be NULL. Non-zero with err filled: the caller found the member bad, which counts as a
     * problem of *ret_kind. */
    int (*member)(void *context, const struct verify_member *member, enum verify_kind *ret_kind,
                  struct err *err);
    /* Each sample must have the dataset's fields, and a label where the dataset names classes; of a
     * shard alone, the fields that any of its samples has. */
    bool same_fields;
    /* Whether a sample that has the field b needs none named a, as where pictures are JPEG or PNG.
     * NULL: never. */
    bool (*is_alternative)(const char *a, const char *b);
    void (*progress)(void *context, uint64_t bytes_done,
                     uint64_t bytes); /* once a buffer; may be NULL */
    void *context;
    const atomic_int *stop; /* non-zero: end soon with -EINTR; NULL: never */
};

struct verify_result {
    uint64_t shards_count, samples_count, members_count, bytes, problems_count, notes_count;
    uint64_t kinds_count[VERIFY_KIND_COUNT]; /* of the problems */
};

/* 0 also where there are problems: see the result. Negative where verifying itself failed (-ENOMEM,
 * -EINTR, -EIO). expected: the shard's line in dataset.json, NULL where there is none. Adds to
 * *result. Blocks. */
int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result,
                 struct err *err);
/* All shards of an open dataset; progress counts over all of them. */
int verify_dataset(struct io *io, const struct dataset *dataset,
                   const struct verify_options *options, struct verify_result *result,
                   struct err *err);

#endif
