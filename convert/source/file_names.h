/*
 * file_names — classifies files and folders by name.
 */
#ifndef MILLRACE_CONVERT_SOURCE_FILE_NAMES_H
#define MILLRACE_CONVERT_SOURCE_FILE_NAMES_H

#include "convert/options.h"
#include "shards/format/index.h"

/* Ignores case. names: ended by NULL. */
bool name_is_one_of(const char *name, const char *const *names);
/* Dotfiles, and names such as Thumbs.db that operating systems and tools create. */
bool name_is_hidden(const char *name);
/* Whether all tar readers decode the name alike: UTF-8 (RFC 3629) without control characters. */
bool name_is_plain(const char *name);
/* WebDataset readers skip files and folders whose names match __[^/]*__($|/). */
bool name_is_reserved(const char *name);
/* README, LICENSE and the like. txt_is_data: .txt files never match. */
bool name_is_readme(const char *name, bool txt_is_data);
/* train, val, test and the like. */
bool name_is_split(const char *name);
/* Whether --ignore matches. relative: path below the source. */
bool name_is_ignored(const struct convert_options *options, const char *relative);
/* Returns the extension within a name, after its dot: what follows the last dot, or all of a field
 * of options->fields with dots (seg.png). NULL: the name has no dot. */
const char *name_find_extension(const struct convert_options *options, const char *name);
/* The stored form of an extension: lowercase, "jpeg" as "jpg", truncated if too long. */
void extension_normalize(const char *text, char extension[SHARD_EXTENSION_BYTES_MAX]);
/* The stored form of what follows the last dot. */
void name_write_extension(const char *name, char extension[SHARD_EXTENSION_BYTES_MAX]);
bool extension_is_field(const struct convert_options *options, const char *extension);
/* train, val, test and the like. */
bool name_is_split(const char *name);
/* .tfrecord, .tfrecords and .tfrec, also before a number as in x.tfrecord-00000-of-00010. */
bool name_has_tfrecord(const char *name);
/* The same, or without an extension: x-00000-of-00010. */
bool name_is_tfrecord(const char *name);
/* .mds, perhaps compressed. */
bool name_is_mds(const char *name);
/* chunk-0-0.bin and the like. */
bool name_is_litdata(const char *name);
/* Files that describe the records next to them: those of TensorFlow Datasets, and index.json. */
bool name_describes_records(const char *name);
/* Returns the unsupported format that a name indicates, such as "Parquet", or NULL. Extensions
 * of options->fields are supported. */
const char *name_unsupported_format(const struct convert_options *options, const char *name);
bool name_is_json_lines(const char *name); /* .jsonl and .ndjson */
/* Lists (.csv, .tsv, .jsonl, .ndjson), .npz and .beton: unsupported only among the files of a
 * folder. */
bool name_is_own_source(const char *name);
/* Compressed tars and zips, by their names. */
bool name_is_archive(const char *name);
bool name_is_tar_or_archive(const char *name);
/* -ENOTSUP with the supported alternatives. format: from name_unsupported_format; NULL: unknown. */
int reject_unsupported_format(const char *path, const char *format, struct err *err);

#endif
