/*
 * foreign — makes a plain tar, written by another tool, random-access: one walk over its headers
 * builds an index.
 *
 * Samples follow WebDataset's convention: regular files, names split by member_name.h, adjacent
 * members with the same key. Sparse files are left out, because the archive does not store their
 * data verbatim; verify.h names them. The index has no checksums, since tars have none. On request,
 * the walk also reads the data and computes them, so that later reads can be verified. The
 * **identity** is the CRC of the index without checksums (names, offsets and sizes), so it does not
 * depend on that request.
 *
 * Damage is an error, or is **salvaged**: the samples intact before it are taken. Which samples
 * those are depends only on the file's bytes. Salvaging does not change the result for an undamaged
 * tar.
 */
#ifndef MILLRACE_SHARDS_FORMAT_FOREIGN_H
#define MILLRACE_SHARDS_FORMAT_FOREIGN_H

#include "base/str.h"
#include "io/io.h"
#include "shards/format/index.h"

/* How to continue with a damaged tar. Immutable. Left out are
 *   - of members that name the same field of a sample, all but the first;
 *   - single members whose names cannot be a field's (member_name.h);
 *   - everything after the point where the headers end or are unreadable. This includes the current
 *     sample, unless the tar was cut within a file of the next one: otherwise nothing shows that
 *     the sample was complete. */
struct salvage {
    /* Called for each thing left out: what is wrong, with its offset; the advice states the
     * consequence. May be NULL. */
    void (*left_out)(void *context, const struct err *what);
    void *context;
};

/* Immutable. */
struct foreign_options {
    bool crcs; /* read all data and compute checksums */
    /* treat a millrace shard without its trailer as a plain tar, not as an error */
    bool accept_lost_index;
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes); /* may be NULL */
    void *context;
    const struct salvage *salvage; /* NULL: damage is an error */
};

/* index: in the format of shard_index_decode, with its trailer. Zeroed at first; free by
 * foreign_index_deinit. */
struct foreign_index {
    /* As it would be in the file, except that index_offset is archive_end. */
    struct shard_trailer trailer;
    struct str index;
    uint32_t identity_crc32c;
    bool is_partial; /* the tar is damaged: without salvage there is no index */
};

/* Blocks. -EBADMSG with the offset: not a tar, damaged, a sample with a duplicate extension, or a
 * limit of shards exceeded. With salvage, only the last is an error. */
int foreign_index_build(struct io *io, struct io_file *file, const char *path,
                        const struct foreign_options *options, struct foreign_index *ret_index,
                        struct err *err);
void foreign_index_deinit(struct foreign_index *index);

#endif
