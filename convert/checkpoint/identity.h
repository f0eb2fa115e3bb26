/*
 * identity — hash of everything that determines a conversion's bytes. As owner_id, it lets a
 * resumed conversion find only its own output.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_IDENTITY_H
#define MILLRACE_CONVERT_CHECKPOINT_IDENTITY_H

#include "ckpt/load/reader.h"

enum { IDENTITY_BYTES = 32 };

/* options: all options that affect the bytes, as text. A step is identified by its blocks'
 * checksums, a plain file by its identity (io.h) when its header was read. text (IDENTITY_BYTES):
 * "convert." and 16 hex digits. */
int identity_compute(const struct ckpt_reader *reader, const char *options, char *text,
                     struct err *err);

#endif
