/*
 * table_folder — folders of files with metadata.csv or metadata.jsonl, as Hugging Face's
 * ImageFolder and AudioFolder define them: one row per sample, with paths relative to the metadata.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_FOLDER_H
#define MILLRACE_CONVERT_SOURCE_TABLE_FOLDER_H

#include "convert/source/source.h"

bool name_is_metadata(const char *name);
/* Stores the path of a folder's metadata. relative: the folder, below options->source. -ENOENT: it
 * has none; -EINVAL: it has both kinds. */
int table_folder_find(struct io *io, const struct convert_options *options, const char *relative,
                      char path[IO_PATH_BYTES_MAX], struct err *err);
/* -ENOTSUP: some files of the folder have no row. path_hashes: table_path_hash of the rows' files;
 * sorts them. Adds hidden and ignored files to source. */
int table_folder_check(struct io *io, struct source *source, const char *relative,
                       uint64_t *path_hashes, size_t count, struct err *err);

#endif
