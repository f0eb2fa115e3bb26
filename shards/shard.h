/*
 * shard — one shard file: written member by member, and opened by one read of its tail.
 *
 * A tar of another tool is opened too: its index comes from the cache, or from one walk over its
 * headers (foreign.h).
 *
 * Writing goes through an io set with one file, so a shard appears whole or not at all. Members are
 * collected into large buffers; the writer's caller is the only thread.
 */
#ifndef MILLRACE_SHARDS_SHARD_H
#define MILLRACE_SHARDS_SHARD_H

#include "io/io.h"
#include "shards/foreign.h"
#include "shards/index.h"

/* A shard open for reading. Immutable once open; file and index may be used by all threads. */
struct shard {
    struct io *io; /* borrowed */
    struct io_file *file;
    struct shard_trailer trailer;
    struct shard_index *index;
    /* Another tool's tar: of the trailer, samples, fields, archive_end and file_bytes mean
     * something. */
    bool is_foreign;
    bool is_partial; /* of a damaged tar: what is whole */
    /* Of the index; of a foreign one without checksums: tells whether it is the shard that was
     * listed. */
    uint32_t identity_crc32c;
    char path[IO_PATH_BYTES_MAX];
};

/* Reads the tail, checks trailer and index; where there is no trailer, takes the file for a tar of
 * another tool. -EBADMSG with offset and advice where it is neither, or a damaged shard of ours
 * (unless shard_reindex made an index of it). */
int shard_open(struct io *io, const char *path, struct shard **ret_shard, struct err *err);
/* The same, but of a damaged tar of another tool the samples that are whole. Where nobody wants to
 * be told what is left out, a kept index of it will do. */
int shard_open_salvaging(struct io *io, const char *path, const struct salvage *salvage,
                         struct shard **ret_shard, struct err *err);
void shard_close(struct shard *shard); /* NULL is fine */

/* Whether the file ends in a trailer of ours, be it damaged. */
int shard_has_trailer(struct io *io, const char *path, bool *ret_has_trailer, struct err *err);
/* Walks the tar anew, whatever is known of it, and keeps the index in the cache. For tars that
 * shard_open finds foreign or damaged: a whole trailer wins. -EBADMSG as above, errors of
 * writing. */
int shard_reindex(struct io *io, const char *path, const struct foreign_options *options,
                  struct err *err);

/* What is known of a shard once it is written. */
struct shard_summary {
    uint64_t samples, file_bytes,
        field_bytes; /* field_bytes: data of all members, without tar's headers and padding */
    uint64_t xxh3;   /* XXH3-64 of the file */
    uint32_t index_crc32c;
};

struct shard_writer;
/* replace: as in io_transaction_options. */
int shard_writer_open(struct io *io, const char *path, bool replace,
                      struct shard_writer **ret_writer, struct err *err);
/* A sample is its key and then its fields, in byte order of their extensions. The data is
 * copied. */
int shard_writer_begin_sample(struct shard_writer *writer, const char *key, struct err *err);
int shard_writer_add_field(struct shard_writer *writer, const char *extension, const void *data,
                           uint64_t size_bytes, struct err *err);
/* The same of an uncompressed picture whose rows fill the field from pixels_at on, so that parts of
 * it can be read. */
int shard_writer_add_picture(struct shard_writer *writer, const char *extension, const void *data,
                             uint64_t size_bytes, struct shard_picture picture, struct err *err);
/* What the archive would weigh if it ended now, index included approximately: for deciding where to
 * cut. */
uint64_t shard_writer_bytes(const struct shard_writer *writer);
uint64_t shard_writer_samples(const struct shard_writer *writer);
/* Ends the archive, writes index and trailer, commits. Frees the writer, also where it fails. */
int shard_writer_commit(struct shard_writer *writer, struct shard_summary *ret_summary,
                        struct err *err);
void shard_writer_abort(struct shard_writer *writer); /* NULL is fine */

#endif
