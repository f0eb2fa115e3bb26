/*
 * dataset_list — datasets that have no dataset.json of ours: a tar, a pattern of them, a wids shard
 * list of another tool.
 *
 * What dataset.json would say is learned by opening each shard once; indexes of tars that carry
 * none come from the cache after the first time. Class names and text are not known of such
 * datasets.
 */
#ifndef MILLRACE_SHARDS_DATASET_LIST_H
#define MILLRACE_SHARDS_DATASET_LIST_H

#include "shards/dataset.h"

/* Fill the shard list: with one shard, or with what the pattern stands for. dataset->shards is
 * NULL. -EINVAL, -ENOMEM. */
int dataset_list_one(struct dataset *dataset, const char *url, struct err *err);
int dataset_list_urls(struct dataset *dataset, const char *pattern, struct err *err);
/* Whether damaged tars are salvaged, and who is told of it. Immutable. */
struct dataset_learning {
    bool salvages;
    const struct log *log; /* of what is left out; may be NULL */
};

/* Opens every shard of the list and fills in its samples, size and identity, then samples, fields,
 * mean_sample_bytes and fingerprint of the dataset. A list that tells nsamples (listed) must be
 * right, but of a damaged tar that is salvaged. Blocks. -EBADMSG naming the shard, what shard_open
 * gives. */
int dataset_list_learn(struct io *io, struct dataset *dataset, bool listed,
                       const struct dataset_learning *how, struct err *err);

#endif
