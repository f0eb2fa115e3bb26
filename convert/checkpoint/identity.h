/*
 * identity — a hash of everything that determines a conversion's bytes, used as owner_id: a resumed
 * conversion only finds output of the same tensors, made in the same way.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_IDENTITY_H
#define MILLRACE_CONVERT_CHECKPOINT_IDENTITY_H

#include "ckpt/load/reader.h"

enum { IDENTITY_BYTES = 32 };

/* options: a text with all options that affect the bytes. A step is identified by the checksums of
 * its blocks, a plain file by its identity (io.h) when its header was read. text (IDENTITY_BYTES):
 * "convert." and 16 hex digits. */
int identity_of(const struct ckpt_reader *reader, const char *options, char *text, struct err *err);

#endif
