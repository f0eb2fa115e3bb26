/*
 * dali — the index file that NVIDIA DALI's webdataset reader expects next to a tar (wds2idx,
 * version 1.2).
 *
 *     v1.2 SAMPLES
 *     EXTENSION OFFSET BYTES NAME EXTENSION OFFSET BYTES NAME ...      one line per sample
 *
 * Parts are separated by spaces, so names with spaces cannot be represented.
 */
#ifndef MILLRACE_SHARDS_DATASET_DALI_H
#define MILLRACE_SHARDS_DATASET_DALI_H

#include "base/str.h"
#include "shards/format/shard.h"

/* Appends the text. Extensions are in lower case, as in the index. -ENOTSUP naming a member with a
 * space in its name; -ENOMEM. */
int dali_index_encode(const struct shard *shard, struct str *out, struct err *err);

#endif
