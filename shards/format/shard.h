/*
 * shard — a shard file, opened with one read of its tail, or written member by member.
 *
 *     shard_open(io, path, &shard, err);            // the tail is SHARD_TAIL_BYTES long
 *     shard_open_with(io, path, &(struct shard_open_options){.index_offset = offset}, ...);
 *     dataset_open_shard(io, dataset, number, ...); // passes the offset from dataset.json
 *
 * A plain tar can be opened too: its index comes from the cache or from a walk over its headers
 * (plain_tar.h).
 *
 * A shard is written in a single-file io transaction, so it appears complete or not at all. Use a
 * writer from one thread only.
 */
#ifndef MILLRACE_SHARDS_FORMAT_SHARD_H
#define MILLRACE_SHARDS_FORMAT_SHARD_H

#include "io/io.h"
#include "shards/format/index.h"
#include "shards/format/plain_tar.h"

/* An open shard. Immutable; file and index are usable from any thread. */
struct shard {
    struct io *io;
    struct io_file *file;
    struct shard_trailer trailer;
    struct shard_index *index;
    /* If set, only samples, fields, archive_end and file_bytes of the trailer are valid. */
    bool is_plain_tar;
    bool is_partial; /* has only the intact samples of a damaged tar */
    /* CRC of the index; for a plain tar, of the index without checksums. */
    uint32_t identity_crc32c;
    char path[IO_PATH_BYTES_MAX];
};

/* Reads the tail and checks trailer and index. A file without a trailer is opened as a plain
 * tar. -EBADMSG with offset and advice: neither kind, or a damaged millrace shard that
 * shard_reindex has not indexed. */
int shard_open(struct io *io, const char *path, struct shard **ret_shard, struct err *err);

/* Zeros are the behavior of shard_open. */
struct shard_open_options {
    /* Where the index should begin, according to a list of shards; 0: unknown. The tail then begins
     * there, so one read gets exactly the index and the trailer, whatever their size. The trailer
     * decides: with a wrong offset the shard opens all the same, with at most one more read, and
     * the caller compares index_offset with the trailer's (unless is_plain_tar). An offset that the
     * file's size rules out is ignored. */
    uint64_t index_offset;
    /* If set, opens the intact samples of a damaged plain tar. If salvage->on_skip is NULL, their
     * cached index may be used. */
    const struct salvage *salvage;
};

int shard_open_with(struct io *io, const char *path, const struct shard_open_options *options,
                    struct shard **ret_shard, struct err *err);
void shard_close(struct shard *shard); /* NULL is fine */

/* Also true for a damaged trailer. */
int shard_has_trailer(struct io *io, const char *path, bool *ret_has_trailer, struct err *err);
/* Walks the tar and replaces its cached index. Useful for plain tars and damaged shards:
 * shard_open prefers an intact trailer. Errors of plain_tar_index_build and index_cache_store. */
int shard_reindex(struct io *io, const char *path, const struct plain_tar_options *options,
                  struct err *err);

struct shard_summary {
    /* uncompressed_bytes: file_bytes unless compressed; field_bytes: without tar headers and
     * padding. */
    uint64_t samples, file_bytes, uncompressed_bytes, field_bytes, index_offset;
    uint64_t xxh3;
    uint32_t index_crc32c;
};

struct shard_writer;
/* replace: as in io_transaction_options. */
int shard_writer_open(struct io *io, const char *path, bool replace,
                      struct shard_writer **ret_writer, struct err *err);
/* Writes the shard as a file of a folder's transaction, which must outlive the writer. Committing
 * the shard finalizes the file. path: for messages. */
int shard_writer_open_in(struct io *io, struct io_transaction *transaction, const char *name,
                         const char *path, struct shard_writer **ret_writer, struct err *err);
/* Compresses the shard in zstd's seekable format (io/zstd/frame_writer.h), with the index as its
 * tail. Call it before the first sample. level, threads: as in struct frame_writer_options. The
 * shard is read through seekable_io.h, where it is the same as an uncompressed one. */
int shard_writer_compress(struct shard_writer *writer, int level, unsigned threads,
                          struct err *err);
/* A sample is a key, then its fields in byte order of their extensions. Data is copied. */
int shard_writer_begin_sample(struct shard_writer *writer, const char *key, struct err *err);
int shard_writer_add_field(struct shard_writer *writer, const char *extension, const void *data,
                           uint64_t size_bytes, struct err *err);
/* Adds an uncompressed image and records the location of its rows, so that parts can be read. */
int shard_writer_add_raw_image(struct shard_writer *writer, const char *extension, const void *data,
                               uint64_t size_bytes, struct shard_raw_image picture,
                               struct err *err);
/* Adds a number to the current sample's entry in the index. Errors of
 * shard_index_builder_add_number. */
int shard_writer_add_number(struct shard_writer *writer, const char *name, double value,
                            struct err *err);
/* Returns the size, before compression, that the shard would have if committed now, with an
 * estimated index; for deciding when to start the next shard. */
uint64_t shard_writer_bytes(const struct shard_writer *writer);
uint64_t shard_writer_samples(const struct shard_writer *writer);
/* Writes the end of the archive, index and trailer, and commits the shard. Frees the writer, even
 * on failure. */
int shard_writer_commit(struct shard_writer *writer, struct shard_summary *ret_summary,
                        struct err *err);
/* Writes the end of the archive only, for a plain tar: index_offset is 0 in the summary, and
 * index_crc32c the CRC of the index without checksums (struct shard, identity_crc32c). Its samples
 * must have neither numbers nor raw images. */
int shard_writer_commit_plain(struct shard_writer *writer, struct shard_summary *ret_summary,
                              struct err *err);
void shard_writer_abort(struct shard_writer *writer); /* NULL is fine */

#endif
