/*
 * verification — what the parts of verifying share: one pass over a shard's bytes, and what is said
 * of them. Internal to shards/.
 *
 * verify.c judges shards and datasets, verify_archive.c what the archive holds against what the
 * index names.
 */
#ifndef MILLRACE_SHARDS_VERIFICATION_H
#define MILLRACE_SHARDS_VERIFICATION_H

#include "base/hash.h"
#include "base/str.h"
#include "shards/verify.h"

/* A shard read once from its start to its end; hashed as it comes. */
struct stream {
    struct shard *shard;
    struct io_queue *queue;
    struct hash_stream *hash;
    uint8_t *buffer;
    uint64_t buffer_offset, buffer_bytes;
    uint64_t file_bytes;
};

struct verification {
    struct io *io;
    const struct verify_options *options;
    struct verify_result *result;
    struct err *err; /* of failures of verifying itself */
    const char *path;
    uint64_t bytes_before, bytes_total; /* for progress: of the shards before, of all */
    struct stream stream;
    struct str member; /* the member at hand */
    uint64_t sample;   /* the next the index names */
    uint32_t field;
    uint64_t seen; /* of another tool's tar: a bit a field of the sample at hand that has come */
};

/* Of v->path: opens the pass once v->stream.shard is open; close also closes the shard, and is fine
 * before open. */
int verification_open(struct verification *v);
void verification_close(struct verification *v);
/* The bytes at offset, which must not be before the buffer; data NULL: only reads on up to there.
 * Offsets only grow. */
int verification_read(struct verification *v, uint64_t offset, void *data, uint64_t bytes);
/* Padding from offset to end must be zeros; a problem where it is not. */
int verification_check_zeros(struct verification *v, const char *key, uint64_t offset,
                             uint64_t end);

/* Moves sample and field to the next field that is present. False at the end. */
bool verification_next_field(struct verification *v, struct shard_field *ret_field);
/* The key of the sample at hand. */
void verification_key(const struct verification *v, char key[SHARD_KEY_BYTES_MAX]);

/* Problems, which are counted, at offset of the shard; key: of the sample, "" where it is about
 * none. */
void verification_report(struct verification *v, enum verify_kind kind, const char *key,
                         const struct err *err);
/* With two numbers: sizes, offsets, counts. */
void verification_complain(struct verification *v, const char *key, uint64_t offset,
                           const char *what, uint64_t expected, uint64_t found);
/* With two checksums of so many hexadecimal digits. */
void verification_complain_sum(struct verification *v, const char *key, uint64_t offset,
                               const char *what, int digits, uint64_t expected, uint64_t found);
/* What is no problem, but odd. */
void verification_note(struct verification *v, const char *key, uint64_t offset, const char *what,
                       const char *advice);

/* Walks the archive and checks each member: its place in the index, its sums, what the caller finds
 * in it. */
int verify_archive(struct verification *v);

#endif
