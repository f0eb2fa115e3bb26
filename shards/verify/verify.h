/*
 * verify — checks every byte of a shard or dataset against all checksums and counts.
 *
 * One sequential pass over the file with bounded memory checks that
 * - the tar headers name the members of the index, at the same offsets;
 * - each field's CRC32C and block CRCs, the padding, and the end of the archive are right;
 * - the XXH3 of the whole file matches dataset.json, if that has it;
 * - keys are unique within a shard;
 * - on request, each sample has all fields.
 *
 * Callers that want to decode members receive each member's bytes.
 */
#ifndef MILLRACE_SHARDS_VERIFY_VERIFY_H
#define MILLRACE_SHARDS_VERIFY_VERIFY_H

#include "shards/dataset/dataset.h"

#include <stdatomic.h>

enum {
    VERIFY_BUFFER_BYTES = 1 << 20, /* read at a time */
    /* Larger members are checked, but not passed to `member`. */
    VERIFY_MEMBER_BYTES_MAX = 256 << 20,
};

/* What a problem is about. */
enum verify_kind {
    VERIFY_CHECKSUM,
    VERIFY_ARCHIVE, /* the tar, its index, sizes and counts */
    VERIFY_FIELDS,  /* of a sample, except the label */
    VERIFY_LABEL,   /* missing, not a number, or out of range */
    VERIFY_IMAGE,
    VERIFY_TOKENS,
    VERIFY_KIND_COUNT
};
const char *verify_kind_name(enum verify_kind kind); /* "checksum" */

/* One problem. Valid during the call. */
struct verify_problem {
    enum verify_kind kind;
    const char *path;      /* of the shard, or of dataset.json */
    const char *key;       /* of the sample; "" if the problem is not about one */
    const struct err *err; /* what, path, offset, expected, found */
};

/* A member with a correct CRC. Valid during the call. */
struct verify_member {
    const char *path, *key, *extension;
    uint64_t offset; /* of its data in the shard */
    const void *data;
    uint64_t size_bytes;
    struct shard_raw_image picture; /* its rows according to the index */
};

/* Immutable. Callbacks come from the calling thread. */
struct verify_options {
    void (*problem)(void *context, const struct verify_problem *problem); /* may be NULL */
    /* Reports oddities of another tool's tar that its readers accept: no end of archive, a field
     * that is a sparse file. May be NULL. */
    void (*note)(void *context, const struct verify_problem *note);
    /* May be NULL. Returns nonzero and fills err if it finds the member bad, which counts as a
     * problem of *ret_kind. */
    int (*member)(void *context, const struct verify_member *member, enum verify_kind *ret_kind,
                  struct err *err);
    /* Each sample must have the dataset's fields, and a label if the dataset names classes. For a
     * lone shard: the fields that any of its samples has. */
    bool same_fields;
    /* Whether field b may replace field a, for example JPEG and PNG pictures. NULL: never. */
    bool (*is_alternative)(const char *a, const char *b);
    /* Called once per buffer; may be NULL. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *context;
    const atomic_int *stop; /* nonzero: end soon with -EINTR; NULL: never */
};

struct verify_result {
    uint64_t shards_count, samples_count, members_count, bytes, problems_count, notes_count;
    uint64_t kinds_count[VERIFY_KIND_COUNT]; /* problems of each kind */
};

/* Returns 0 even if there are problems: see the result. Negative if the verification itself failed
 * (-ENOMEM, -EINTR, -EIO). expected: the shard's entry in dataset.json, or NULL. Adds to *result.
 * Blocks. */
int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result,
                 struct err *err);
/* Verifies all shards of an open dataset; progress covers all of them. */
int verify_dataset(struct io *io, const struct dataset *dataset,
                   const struct verify_options *options, struct verify_result *result,
                   struct err *err);

#endif
