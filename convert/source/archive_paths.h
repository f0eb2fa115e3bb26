/*
 * archive_paths — lists the files, such as tars, that a source names: one file, a folder of them,
 * brace patterns (url_list.h) and globs.
 */
#ifndef MILLRACE_CONVERT_SOURCE_ARCHIVE_PATHS_H
#define MILLRACE_CONVERT_SOURCE_ARCHIVE_PATHS_H

#include "convert/options.h"
#include "shards/dataset/url_list.h"

/* Whether a path that does not exist may be a pattern or a glob. */
bool archive_paths_is_pattern(const char *text);
/* Appends the paths to list, in their order: that of the pattern; byte order of names for a glob
 * and for a folder. A glob may be in the last part of a path. Of a folder, takes the files whose
 * names are taken, except hidden and ignored ones. -ENOENT: a glob matches nothing; errors of
 * url_list_expand. Blocks. */
int archive_paths_list(struct io *io, const struct convert_options *options,
                       bool (*is_taken)(const char *name), struct url_list *list, struct err *err);

#endif
