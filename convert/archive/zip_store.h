/*
 * zip_store — reads a zip as it would be if its members were stored without compression: the
 * adapter of libarchive's writer. Members keep their names, order and bytes; their checksums are
 * verified.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_ZIP_STORE_H
#define MILLRACE_CONVERT_ARCHIVE_ZIP_STORE_H

#include "convert/archive/file_blocks.h"

struct zip_store; /* use from one thread only */
/* blocks: borrowed. -EBADMSG: not a zip. */
int zip_store_open(struct file_blocks *blocks, struct zip_store **ret_zip, struct err *err);
void zip_store_close(struct zip_store *zip); /* NULL is fine */
/* Reads up to `bytes` bytes; *ret_bytes is 0 only at the end. Errors of unarchive.h. */
int zip_store_read(struct zip_store *zip, void *data, size_t bytes, size_t *ret_bytes,
                   struct err *err);

#endif
