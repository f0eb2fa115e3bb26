/*
 * verification — reads a shard once and reports problems. Internal.
 *
 * verify_dataset.c checks shards and datasets; verify_archive.c compares archive and index.
 */
#ifndef MILLRACE_SHARDS_VERIFY_VERIFICATION_H
#define MILLRACE_SHARDS_VERIFY_VERIFICATION_H

#include "base/hash.h"
#include "base/str.h"
#include "shards/verify/verify.h"

struct verify_stream {
    struct shard *shard;
    struct io_queue *queue;
    struct hash_stream *hash;
    uint8_t *buffer;
    uint64_t buffer_offset, buffer_bytes;
    uint64_t file_bytes;
};

struct verification {
    struct io *io;        /* reads the shard's content (seekable_io.h) */
    struct io *stored_io; /* reads the shard as it is stored */
    const struct verify_options *options;
    struct verify_result *result;
    struct err *err; /* failures of the verification itself */
    const char *path;
    uint64_t bytes_before, bytes_total; /* for progress: size of earlier shards, of all shards */
    struct verify_stream stream;
    struct str member;
    uint64_t sample; /* sample of the next field in the index */
    uint32_t field;
    uint64_t seen_fields; /* plain tar: one bit per field seen in the current sample */
};

/* v->stream.shard must be open. verification_close also closes the shard, and works before
 * verification_open. */
int verification_open(struct verification *v);
void verification_close(struct verification *v);
/* Reads bytes at offset. Offsets must not decrease. data: NULL skips to the end of the range. */
int verification_read(struct verification *v, uint64_t offset, void *data, uint64_t bytes);
/* Hashes the file as it is stored, which overwrites the buffer. */
int verification_hash_stored(struct verification *v, uint64_t *ret_xxh3, uint64_t *ret_bytes);
/* Reports nonzero padding in [offset, end). */
int verification_check_zeros(struct verification *v, const char *key, uint64_t offset,
                             uint64_t end);

/* Advances to the next present field; false at the end. */
bool verification_next_field(struct verification *v, struct shard_field *ret_field);
void verification_key(const struct verification *v, char key[SHARD_KEY_BYTES_MAX]);

/* Reports and counts a problem. key: the sample's, or "". */
void verification_report(struct verification *v, enum verify_kind kind, const char *key,
                         const struct err *err);
/* Reports a mismatch between two sizes, offsets or counts. */
void verification_report_mismatch(struct verification *v, const char *key, uint64_t offset,
                                  const char *what, uint64_t expected, uint64_t found);
/* Reports a mismatch between two checksums of `digits` hexadecimal digits. */
void verification_report_checksum_mismatch(struct verification *v, const char *key, uint64_t offset,
                                           const char *what, int digits, uint64_t expected,
                                           uint64_t found);
/* Reports an oddity that is not a problem. */
void verification_note(struct verification *v, const char *key, uint64_t offset, const char *what,
                       const char *advice);

/* Checks each member of the archive: its place in the index, its checksums, and, with the caller's
 * check_member, its contents. */
int verify_archive(struct verification *v);

#endif
