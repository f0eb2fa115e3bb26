/*
 * foreign — a tar that another tool wrote, made random-access: its headers are walked once and give an index.
 *
 * What a sample is, is WebDataset's convention: regular files, names split by member_name.h, adjacent members of one key.
 * Sparse files do not stand in the archive as they are, and are left out; verify.h names them. The index has no checksums,
 * since no tar has; asked to, the walk reads the data too and computes them, so that later reads can be verified. Its
 * **identity** is the CRC of the index without checksums: names, places and sizes, the same whether or not checksums were
 * asked for.
 */
#ifndef MILLRACE_SHARDS_FOREIGN_H
#define MILLRACE_SHARDS_FOREIGN_H

#include "base/str.h"
#include "io/io.h"
#include "shards/index.h"

/* Immutable. */
struct foreign_options {
    bool crcs;              /* read all data and compute its checksums */
    bool accept_lost_index; /* a shard of ours whose trailer is gone is a tar like others, no error */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes); /* may be NULL */
    void *context;
};

/* index: as shard_index_decode takes it, with trailer. foreign_index_deinit frees; zero at first. */
struct foreign_index {
    /* As it would stand in the file, but for index_offset, which is archive_end. */
    struct shard_trailer trailer;
    struct str index;
    uint32_t identity_crc32c;
};

/* Blocks. -EBADMSG with the offset: no tar, damaged, a sample that has an extension twice, a limit of shards
 * exceeded. */
int foreign_index_build(struct io *io, struct io_file *file, const char *path,
                        const struct foreign_options *options, struct foreign_index *ret_index,
                        struct err *err);
void foreign_index_deinit(struct foreign_index *index);

#endif
