/*
 * file_names — classifies files and folders by name, without reading them.
 */
#ifndef MILLRACE_CONVERT_SOURCE_FILE_NAMES_H
#define MILLRACE_CONVERT_SOURCE_FILE_NAMES_H

#include "convert/options.h"
#include "shards/format/index.h"

/* Dotfiles, and what operating systems and tools leave in folders: .git, Thumbs.db, __MACOSX. */
bool name_is_hidden(const char *name);
/* A file that describes the data and belongs to no sample: README, LICENSE and the like.
 * txt_is_data: .txt files are not descriptions. */
bool name_is_readme(const char *name, bool txt_is_data);
/* Whether --ignore matches it. relative: its path below the source. */
bool name_is_ignored(const struct convert_options *options, const char *relative);
/* The extension that a file of this name is stored under: lowercase, "jpeg" as "jpg", truncated if
 * too long. */
void name_write_extension(const char *name, char extension[SHARD_EXTENSION_BYTES_MAX]);
/* Whether files with this extension are fields of samples. */
bool name_is_field(const struct convert_options *options, const char *extension);
/* The unsupported format that a file's name indicates, such as "Parquet"; NULL: none. Extensions of
 * options->fields are supported. */
const char *name_unsupported_format(const struct convert_options *options, const char *name);
/* -ENOTSUP with the supported alternatives. format: of name_unsupported_format; NULL: unknown. */
int name_refuse_format(const char *path, const char *format, struct err *err);

#endif
