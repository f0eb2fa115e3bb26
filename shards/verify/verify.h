/*
 * verify — checks every byte of a shard or dataset against all checksums and counts.
 *
 * One sequential pass with bounded memory checks that
 * - tar headers and index agree on names and offsets;
 * - CRC32Cs of fields and blocks, padding, and the end of the archive are right;
 * - the file's XXH3 matches dataset.json, if listed;
 * - keys are unique within a shard;
 * - on request, each sample has all fields.
 */
#ifndef MILLRACE_SHARDS_VERIFY_VERIFY_H
#define MILLRACE_SHARDS_VERIFY_VERIFY_H

#include "shards/dataset/dataset.h"

#include <stdatomic.h>

enum {
    VERIFY_BUFFER_BYTES = 1 << 20,
    /* Larger members are checked, but not passed to check_member. */
    VERIFY_MEMBER_BYTES_MAX = 256 << 20,
};

enum verify_kind {
    VERIFY_CHECKSUM,
    VERIFY_ARCHIVE, /* tar structure, index, sizes and counts */
    VERIFY_FIELDS,  /* missing or unlisted fields other than the label */
    VERIFY_LABEL,   /* missing, not a number, or out of range */
    VERIFY_IMAGE,
    VERIFY_TOKENS,
    VERIFY_KIND_COUNT
};
const char *verify_kind_name(enum verify_kind kind);

/* Valid during the call. */
struct verify_problem {
    enum verify_kind kind;
    const char *path;      /* path of the shard or of dataset.json */
    const char *key;       /* key of the sample, or "" */
    const struct err *err; /* what, path, offset, expected, found */
};

/* A member with a correct CRC. Valid during the call. */
struct verify_member {
    const char *path, *key, *extension;
    uint64_t offset; /* offset of its data in the shard */
    const void *data;
    uint64_t size_bytes;
    struct shard_raw_image picture;
};

/* Immutable. Callbacks run on the calling thread. */
struct verify_options {
    void (*on_problem)(void *context, const struct verify_problem *problem); /* may be NULL */
    /* Reports oddities of plain tars that readers accept: no end of archive, sparse files. May
     * be NULL. */
    void (*on_note)(void *context, const struct verify_problem *note);
    /* Checks a member's contents. Returns nonzero and fills err to report a problem of
     * *ret_kind. May be NULL. */
    int (*check_member)(void *context, const struct verify_member *member,
                        enum verify_kind *ret_kind, struct err *err);
    /* Require an image and a class number in each sample, if the dataset (for a single shard, any
     * of its samples) has such a field, and no fields that the dataset does not list. */
    bool requires_fields;
    /* Whether both fields are images, so that b may replace a. NULL: none is. */
    bool (*is_alternative)(const char *a, const char *b);
    /* Called per buffer; may be NULL. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *context;
    const atomic_int *stop; /* nonzero: stop with -EINTR; may be NULL */
};

struct verify_result {
    uint64_t shards_count, samples_count, members_count, bytes, problems_count, notes_count;
    uint64_t kinds_count[VERIFY_KIND_COUNT];
};

/* Returns 0 even if there are problems; adds to *result. -ENOMEM, -EINTR, -EIO: the verification
 * itself failed. expected: the shard's entry in dataset.json, or NULL. Blocks. */
int verify_shard(struct io *io, const char *path, const struct dataset_shard *expected,
                 const struct verify_options *options, struct verify_result *result,
                 struct err *err);
/* Progress covers all shards. */
int verify_dataset(struct io *io, const struct dataset *dataset,
                   const struct verify_options *options, struct verify_result *result,
                   struct err *err);

#endif
