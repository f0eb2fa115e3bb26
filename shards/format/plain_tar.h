/*
 * plain_tar — indexes a tar that another tool wrote, in one walk over its headers.
 *
 * Samples follow WebDataset's convention: adjacent regular files whose names have the same key
 * (member_name.h). Sparse files are skipped, because the archive does not store their data
 * verbatim. The index has checksums only on request, because computing them reads all data. The
 * **identity** is the CRC of the index without checksums.
 *
 * Damage is an error, or is **salvaged**: the intact samples before it are indexed. The same bytes
 * always yield the same samples.
 */
#ifndef MILLRACE_SHARDS_FORMAT_PLAIN_TAR_H
#define MILLRACE_SHARDS_FORMAT_PLAIN_TAR_H

#include "base/str.h"
#include "io/io.h"
#include "shards/format/index.h"

/* How to continue past damage. Immutable. Salvaging skips
 * - all but the first of the members that name the same field of a sample;
 * - single members whose names are invalid (member_name.h);
 * - everything from an unreadable header on, and the sample before it. That sample is kept only
 *   if the file was truncated within the data of the next one, which shows that the sample is
 *   complete. */
struct salvage {
    /* Called for each skipped part. what: the problem and its offset; its advice states the
     * consequence. May be NULL. */
    void (*on_skip)(void *context, const struct err *what);
    void *context;
};

/* Immutable. */
struct plain_tar_options {
    bool with_crcs; /* read all data and compute checksums */
    /* index a millrace shard without its trailer like any tar; false: -EBADMSG */
    bool accept_lost_index;
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes); /* may be NULL */
    void *context;
    const struct salvage *salvage; /* NULL: damage is an error */
};

/* The index has the format of shard_index_decode. Zero-initialize; free with
 * plain_tar_index_deinit. */
struct plain_tar_index {
    /* As in a shard, except that index_offset is archive_end. */
    struct shard_trailer trailer;
    struct str index;
    uint32_t identity_crc32c;
    bool is_partial; /* the tar is damaged; the index has its intact samples */
};

/* Blocks. -EBADMSG with the offset: not a tar, damage, a duplicate extension in a sample, or a
 * limit of shards exceeded. With salvage, only an exceeded limit is an error. */
int plain_tar_index_build(struct io *io, struct io_file *file, const char *path,
                          const struct plain_tar_options *options,
                          struct plain_tar_index *ret_index, struct err *err);
void plain_tar_index_deinit(struct plain_tar_index *index);

#endif
