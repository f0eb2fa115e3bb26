/*
 * dataset_list — datasets without a dataset.json of millrace: a tar, a pattern of tars, or another
 * tool's wids shard list.
 *
 * Opening each shard once collects what dataset.json would contain. Indexes of tars that have none
 * come from the cache after the first time. Class names and text layout are unknown for such
 * datasets.
 */
#ifndef MILLRACE_SHARDS_DATASET_DATASET_LIST_H
#define MILLRACE_SHARDS_DATASET_DATASET_LIST_H

#include "shards/dataset/dataset.h"

/* Fill the shard list with one shard, or with the expansion of the pattern. dataset->shards must be
 * NULL. -EINVAL, -ENOMEM. */
int dataset_list_one(struct dataset *dataset, const char *url, struct err *err);
int dataset_list_urls(struct dataset *dataset, const char *pattern, struct err *err);
/* Whether and how damaged tars are salvaged. Immutable. */
struct dataset_scan_options {
    bool salvages;
    const struct log *log; /* reports what is left out; may be NULL */
};

/* Opens every shard of the list and sets its samples, size and identity, then samples, fields,
 * mean_sample_bytes and fingerprint of the dataset. If the list has nsamples (listed), they must be
 * right, except for a damaged tar that is salvaged. Blocks. -EBADMSG naming the shard, or errors of
 * shard_open. */
int dataset_list_scan(struct io *io, struct dataset *dataset, bool listed,
                      const struct dataset_scan_options *how, struct err *err);

#endif
