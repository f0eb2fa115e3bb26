/*
 * shard — one shard file: written member by member, and opened by one read of its tail.
 *
 * Another tool's tar can be opened too: its index comes from the cache, or from one walk over its
 * headers (foreign.h).
 *
 * Writing uses a single-file io transaction, so a shard appears complete or not at all. Members are
 * collected in large buffers. A writer is used by one thread.
 */
#ifndef MILLRACE_SHARDS_FORMAT_SHARD_H
#define MILLRACE_SHARDS_FORMAT_SHARD_H

#include "io/io.h"
#include "shards/format/foreign.h"
#include "shards/format/index.h"

/* A shard open for reading. Immutable once open; all threads may use file and index. */
struct shard {
    struct io *io; /* borrowed */
    struct io_file *file;
    struct shard_trailer trailer;
    struct shard_index *index;
    /* Another tool's tar: only samples, fields, archive_end and file_bytes of the trailer are
     * valid. */
    bool is_foreign;
    bool is_partial; /* only the intact samples of a damaged tar */
    /* CRC of the index (for another tool's tar, without checksums): identifies the shard that was
     * listed. */
    uint32_t identity_crc32c;
    char path[IO_PATH_BYTES_MAX];
};

/* Reads the tail and checks trailer and index. A file without a trailer is treated as another
 * tool's tar. -EBADMSG with offset and advice: it is neither, or a damaged millrace shard (unless
 * shard_reindex made an index of it). */
int shard_open(struct io *io, const char *path, struct shard **ret_shard, struct err *err);
/* The same, but takes the intact samples of another tool's damaged tar. If salvage->left_out is
 * NULL, a cached index of them is enough. */
int shard_open_salvaging(struct io *io, const char *path, const struct salvage *salvage,
                         struct shard **ret_shard, struct err *err);
void shard_close(struct shard *shard); /* NULL is fine */

/* Whether the file ends in a millrace trailer, even a damaged one. */
int shard_has_trailer(struct io *io, const char *path, bool *ret_has_trailer, struct err *err);
/* Walks the tar again, ignoring any existing index, and caches the new index. For tars that
 * shard_open finds to be another tool's or damaged: an intact trailer takes precedence. -EBADMSG as
 * above, errors of writing. */
int shard_reindex(struct io *io, const char *path, const struct foreign_options *options,
                  struct err *err);

/* Facts about a shard after writing. */
struct shard_summary {
    /* field_bytes: data of all members, without tar headers and padding. */
    uint64_t samples, file_bytes, field_bytes;
    uint64_t xxh3; /* of the file */
    uint32_t index_crc32c;
};

struct shard_writer;
/* replace: see io_transaction_options. */
int shard_writer_open(struct io *io, const char *path, bool replace,
                      struct shard_writer **ret_writer, struct err *err);
/* A sample is a key followed by its fields, in byte order of their extensions. The data is
 * copied. */
int shard_writer_begin_sample(struct shard_writer *writer, const char *key, struct err *err);
int shard_writer_add_field(struct shard_writer *writer, const char *extension, const void *data,
                           uint64_t size_bytes, struct err *err);
/* The same for an uncompressed picture whose rows fill the field from pixels_at on, so that parts
 * of it can be read. */
int shard_writer_add_raw_image(struct shard_writer *writer, const char *extension, const void *data,
                               uint64_t size_bytes, struct shard_raw_image picture,
                               struct err *err);
/* Size of the shard if it ended now, with an estimate of the index; for deciding where to cut. */
uint64_t shard_writer_bytes(const struct shard_writer *writer);
uint64_t shard_writer_samples(const struct shard_writer *writer);
/* Ends the archive, writes index and trailer, commits. Frees the writer, even on failure. */
int shard_writer_commit(struct shard_writer *writer, struct shard_summary *ret_summary,
                        struct err *err);
void shard_writer_abort(struct shard_writer *writer); /* NULL is fine */

#endif
