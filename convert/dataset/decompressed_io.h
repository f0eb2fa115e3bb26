/*
 * decompressed_io — storage in which compressed files read as their content, so that sources need
 * not know of compression. Their content lies in temporary files next to the target, because
 * sources read files more than once and in any order.
 */
#ifndef MILLRACE_CONVERT_DATASET_DECOMPRESSED_IO_H
#define MILLRACE_CONVERT_DATASET_DECOMPRESSED_IO_H

#include "convert/dataset/compressed_files.h"

/* Decompresses files with options->workers threads. ret_io is inner as sources need it, but
 * compressed files have the path and content of compressed_files.h; it has no folder locks and no
 * sweeps. io_close removes the temporary files. Borrows inner and files. -EBADMSG: a file is
 * damaged; -EOPNOTSUPP: the source has another backend than the target; -EBUSY: another conversion
 * into the target is running; -EINTR: stopped; errors of io transactions. Blocks. */
int decompressed_io_open(struct io *inner, const struct convert_options *options,
                         const struct compressed_files *files, struct io **ret_io, struct err *err);

#endif
