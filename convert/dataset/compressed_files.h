/*
 * compressed_files — finds the compressed files of a source, apart from tars and zips, which are
 * sources of their own (convert/archive/archive_stream.h).
 *
 * - A file with the name of text, a list, JSON, TFRecord, MDS or idx, followed by .gz, .bz2, .xz,
 *   .zst, .zstd or .lz4. It is read by the name without that ending: list.csv.gz as list.csv.
 * - A TFRecord file or a litdata chunk whose content is compressed. It keeps its name.
 * - The source itself, if its content is compressed and no tar; or if it is an .npz file whose
 *   members are compressed.
 */
#ifndef MILLRACE_CONVERT_DATASET_COMPRESSED_FILES_H
#define MILLRACE_CONVERT_DATASET_COMPRESSED_FILES_H

#include "convert/archive/decompressor.h"
#include "convert/options.h"

struct compressed_file {
    char *path; /* by which its content is read */
    char *source;
    uint64_t bytes; /* compressed */
    enum compression compression;
};

/* Zero-initialize. Immutable once found; usable from any thread. */
struct compressed_files {
    struct compressed_file *items; /* in an order of paths */
    size_t count;
};

/* Finds the files of options->source. If it is one of them, options->source becomes the path by
 * which it is read; files owns it. Of files in folders, reads only those whose names may mean
 * compressed data. Call compressed_files_deinit even after a failure. -EBADMSG: a file is not
 * compressed, in spite of its name; -EEXIST: it is there both compressed and not. Blocks. */
int compressed_files_find(struct io *io, struct convert_options *options,
                          struct compressed_files *files, struct err *err);
void compressed_files_deinit(struct compressed_files *files);

/* Returns the file that is read by a path, or NULL. */
const struct compressed_file *compressed_files_at(const struct compressed_files *files,
                                                  const char *path);
/* Returns the file that lies at a path and is read by another one, or NULL. */
const struct compressed_file *compressed_files_of(const struct compressed_files *files,
                                                  const char *source);
/* Names the compressed file in an error that names the path by which it is read. err may be NULL.
 */
void compressed_files_name(const struct compressed_files *files, struct err *err);

#endif
