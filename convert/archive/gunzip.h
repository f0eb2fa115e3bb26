/*
 * gunzip — decompresses a gzip (RFC 1952) or zlib (RFC 1950) file from its first to its last byte:
 * the adapter of ISA-L's igzip. Checks the checksum of every member, and the size of gzip's; a file
 * may have several, as pigz, bgzip and `cat` write them, followed by zeros.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_GUNZIP_H
#define MILLRACE_CONVERT_ARCHIVE_GUNZIP_H

#include "convert/archive/file_blocks.h"

enum gunzip_format { GUNZIP_GZIP, GUNZIP_ZLIB };

struct gunzip; /* use from one thread only */
/* blocks: borrowed, at the start of the file. */
int gunzip_open(struct file_blocks *blocks, enum gunzip_format format, struct gunzip **ret_gunzip,
                struct err *err);
void gunzip_close(struct gunzip *gunzip); /* NULL is fine */
/* Reads up to `bytes` bytes; *ret_bytes is 0 only at the end. -EBADMSG: damaged or truncated data,
 * or data after the last member. */
int gunzip_read(struct gunzip *gunzip, void *data, size_t bytes, size_t *ret_bytes,
                struct err *err);

#endif
