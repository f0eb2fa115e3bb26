/*
 * dali — the index file of a tar for NVIDIA DALI's webdataset reader (wds2idx, version 1.2).
 *
 *     v1.2 SAMPLES
 *     EXTENSION OFFSET BYTES NAME EXTENSION OFFSET BYTES NAME ...      one line per sample
 *
 * Spaces separate the parts, so names cannot contain spaces.
 */
#ifndef MILLRACE_SHARDS_DATASET_DALI_H
#define MILLRACE_SHARDS_DATASET_DALI_H

#include "base/str.h"
#include "shards/format/shard.h"

/* Appends the text, with lowercase extensions. -ENOTSUP names a member with a space; -ENOMEM. */
int dali_index_encode(const struct shard *shard, struct str *out, struct err *err);

#endif
