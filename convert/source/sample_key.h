/*
 * sample_key — the key of a sample that is named by a path in an input file.
 */
#ifndef MILLRACE_CONVERT_SOURCE_SAMPLE_KEY_H
#define MILLRACE_CONVERT_SOURCE_SAMPLE_KEY_H

#include "shards/format/index.h"

#include <stdbool.h>

/* Returns the next part of a path that is not empty, "." or ".."; NULL: none. Moves *path behind
 * it. */
const char *path_next_part(const char **path, size_t *ret_bytes);
/* Stores the path without parts such as "..", and without its last extension if is_file. Other dots
 * and spaces in its last part become "_". Returns NULL, or what was expected of the path. */
const char *sample_key_make(const char *path, bool is_file, char key[SHARD_KEY_BYTES_MAX]);

#endif
