/*
 * identity — what the bytes of a conversion are a function of, as the name of who writes them: who
 * resumes finds only what was being made of the same tensors, in the same way.
 */
#ifndef MILLRACE_CONVERT_IDENTITY_H
#define MILLRACE_CONVERT_IDENTITY_H

#include "ckpt/load/reader.h"

enum { IDENTITY_BYTES = 32 };

/* options: a text with all that decides about the bytes. Of a step the checksums of its blocks tell
 * what is in it, of a plain file its identity (io.h) when its header was read. text
 * (IDENTITY_BYTES): "convert." and 16 hex digits. */
int identity_of(const struct ckpt_reader *reader, const char *options, char *text, struct err *err);

#endif
