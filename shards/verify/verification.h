/*
 * verification — shared by the parts of verifying: one pass over a shard's bytes, and reporting.
 * Internal to shards/.
 *
 * verify_dataset.c checks shards and datasets; verify_archive.c compares the archive to the index.
 */
#ifndef MILLRACE_SHARDS_VERIFY_VERIFICATION_H
#define MILLRACE_SHARDS_VERIFY_VERIFICATION_H

#include "base/hash.h"
#include "base/str.h"
#include "shards/verify/verify.h"

/* Reads a shard once from start to end, and hashes the data. */
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
    struct err *err; /* for failures of the verification itself */
    const char *path;
    uint64_t bytes_before, bytes_total; /* for progress: of earlier shards, of all shards */
    struct stream stream;
    struct str member; /* data of the current member */
    uint64_t sample;   /* the next one in the index */
    uint32_t field;
    uint64_t seen; /* another tool's tar: one bit per field seen of the current sample */
};

/* Opens the pass over v->path once v->stream.shard is open. close also closes the shard, and may be
 * called before open. */
int verification_open(struct verification *v);
void verification_close(struct verification *v);
/* Reads bytes at offset, which must not be before the buffer; data NULL: only advances to the end
 * of the range. Offsets must not decrease. */
int verification_read(struct verification *v, uint64_t offset, void *data, uint64_t bytes);
/* Reports a problem unless the padding from offset to end is all zeros. */
int verification_check_zeros(struct verification *v, const char *key, uint64_t offset,
                             uint64_t end);

/* Advances sample and field to the next present field. Returns false at the end. */
bool verification_next_field(struct verification *v, struct shard_field *ret_field);
/* Gets the key of the current sample. */
void verification_key(const struct verification *v, char key[SHARD_KEY_BYTES_MAX]);

/* Reports and counts a problem at an offset of the shard. key: of the sample, "" if there is
 * none. */
void verification_report(struct verification *v, enum verify_kind kind, const char *key,
                         const struct err *err);
/* Reports two numbers: sizes, offsets, counts. */
void verification_report_mismatch(struct verification *v, const char *key, uint64_t offset,
                                  const char *what, uint64_t expected, uint64_t found);
/* Reports two checksums, with that many hexadecimal digits. */
void verification_report_sum_mismatch(struct verification *v, const char *key, uint64_t offset,
                                      const char *what, int digits, uint64_t expected,
                                      uint64_t found);
/* Reports something that is unusual, but not a problem. */
void verification_note(struct verification *v, const char *key, uint64_t offset, const char *what,
                       const char *advice);

/* Walks the archive and checks each member: its place in the index, its checksums, and the caller's
 * own checks. */
int verify_archive(struct verification *v);

#endif
