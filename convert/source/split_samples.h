/*
 * split_samples — detects samples whose fields lie apart in an archive.
 *
 * Readers of tars group adjacent members into samples. A tool that adds all photos first and all
 * captions later makes two samples of each.
 */
#ifndef MILLRACE_CONVERT_SOURCE_SPLIT_SAMPLES_H
#define MILLRACE_CONVERT_SOURCE_SPLIT_SAMPLES_H

#include "shards/format/index.h"

/* -EBADMSG: two samples have the same key, but different fields. A sample that occurs twice is
 * accepted. Memory: all keys, until it returns. */
int split_samples_check(const struct shard_index *index, const char *path, struct err *err);

#endif
