/*
 * gunzip — decompresses a gzip file (RFC 1952) from its first to its last byte: the adapter of
 * ISA-L's igzip. Checks the CRC and size of every member; a file may have several, as pigz, bgzip
 * and `cat` write them, followed by zeros.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_GUNZIP_H
#define MILLRACE_CONVERT_ARCHIVE_GUNZIP_H

#include "convert/archive/file_blocks.h"

struct gunzip; /* use from one thread only */
/* blocks: borrowed, at the start of the file. */
int gunzip_open(struct file_blocks *blocks, struct gunzip **ret_gunzip, struct err *err);
void gunzip_close(struct gunzip *gunzip); /* NULL is fine */
/* Reads up to `bytes` bytes; *ret_bytes is 0 only at the end. -EBADMSG: damaged or truncated data,
 * or data after the last member. */
int gunzip_read(struct gunzip *gunzip, void *data, size_t bytes, size_t *ret_bytes,
                struct err *err);

#endif
