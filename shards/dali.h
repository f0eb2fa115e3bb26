/*
 * dali — the index file that NVIDIA DALI's webdataset reader takes beside a tar (wds2idx, version
 * 1.2).
 *
 *     v1.2 SAMPLES
 *     EXTENSION OFFSET BYTES NAME EXTENSION OFFSET BYTES NAME ...      a line a sample
 *
 * Parts are separated by spaces, so names that hold any can't be told in it.
 */
#ifndef MILLRACE_SHARDS_DALI_H
#define MILLRACE_SHARDS_DALI_H

#include "base/str.h"
#include "shards/shard.h"

/* Appends the text. Extensions are as the index has them, in small letters. -ENOTSUP naming a
 * member with a space in its name; -ENOMEM. */
int dali_index_encode(const struct shard *shard, struct str *out, struct err *err);

#endif
