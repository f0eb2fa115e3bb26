/*
 * zip_names — the names in a zip file's directory, to compare with those in its local headers.
 *
 * A zip has each name twice, without a checksum, and readers differ in which one they use:
 * libarchive takes the local one. A damaged name would become another key.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_ZIP_NAMES_H
#define MILLRACE_CONVERT_ARCHIVE_ZIP_NAMES_H

#include "base/str.h"
#include "convert/archive/file_blocks.h"

#include <stdbool.h>

/* Zero-initialize. 16 bytes per member. */
struct zip_names {
    struct str list; /* private entries, sorted by hash */
};

/* Reads the directory. Does not move blocks. Errors of zip_directory_read. */
int zip_names_read(struct zip_names *names, struct file_blocks *blocks, struct err *err);
void zip_names_deinit(struct zip_names *names);
/* Takes a member out of the list. False: the directory has none, or no other, of this name. */
bool zip_names_take(struct zip_names *names, const char *name);

#endif
