/*
 * foreign — a tar that another tool wrote, made random-access: its headers are walked once and give
 * an index.
 *
 * What a sample is, is WebDataset's convention: regular files, names split by member_name.h,
 * adjacent members of one key. Sparse files do not stand in the archive as they are, and are left
 * out; verify.h names them. The index has no checksums, since no tar has; asked to, the walk reads
 * the data too and computes them, so that later reads can be verified. Its **identity** is the CRC
 * of the index without checksums: names, places and sizes, the same whether or not checksums were
 * asked for.
 *
 * Damage is an error, or is **salvaged**: the samples that are whole before it are taken. Which
 * they are follows from the file's bytes alone, and of a tar that is not damaged they are the same
 * either way.
 */
#ifndef MILLRACE_SHARDS_FOREIGN_H
#define MILLRACE_SHARDS_FOREIGN_H

#include "base/str.h"
#include "io/io.h"
#include "shards/index.h"

/* How to go on with a damaged tar. Immutable. Left out are
 *   - of members that name one field of one sample, all but the first;
 *   - members whose names can't be a field's (member_name.h), alone;
 *   - from where the headers end or can't be read on, all that follows, with the sample at hand
 *     unless the tar was cut within
 *     a file of the next one: else nothing shows that it was whole. */
struct salvage {
    /* A line for each thing that is left out: what is wrong, with its offset; its advice says what
     * that costs. May be NULL. */
    void (*left_out)(void *context, const struct err *what);
    void *context;
};

/* Immutable. */
struct foreign_options {
    bool crcs; /* read all data and compute its checksums */
    bool
        /* a shard of ours whose trailer is gone is a tar like others, no error */
        accept_lost_index;
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes); /* may be NULL */
    void *context;
    const struct salvage *salvage; /* NULL: damage is an error */
};

/* index: as shard_index_decode takes it, with trailer. foreign_index_deinit frees; zero at
 * first. */
struct foreign_index {
    /* As it would stand in the file, but for index_offset, which is archive_end. */
    struct shard_trailer trailer;
    struct str index;
    uint32_t identity_crc32c;
    bool is_partial; /* the tar is damaged: without salvage it has no index */
};

/* Blocks. -EBADMSG with the offset: no tar, damaged, a sample that has an extension twice; with
 * salvage too, a limit of shards exceeded. */
int foreign_index_build(struct io *io, struct io_file *file, const char *path,
                        const struct foreign_options *options, struct foreign_index *ret_index,
                        struct err *err);
void foreign_index_deinit(struct foreign_index *index);

#endif
