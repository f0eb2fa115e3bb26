/*
 * dataset_list — datasets without millrace's dataset.json: a tar, a pattern of tars, or another
 * tool's wids shard list.
 *
 * Every shard is opened to collect what dataset.json would contain. Class names and text layout
 * are unknown.
 */
#ifndef MILLRACE_SHARDS_DATASET_DATASET_LIST_H
#define MILLRACE_SHARDS_DATASET_DATASET_LIST_H

#include "shards/dataset/dataset.h"
#include "shards/dataset/url_list.h"

/* Fills the empty shard list with one shard, or with the expansion of a pattern. -EINVAL,
 * -ENOMEM. */
int dataset_list_urls(struct dataset *dataset, const char *text, bool is_pattern, struct err *err);
/* Fills the empty shard list with these paths, unexpanded. -ENOMEM. */
int dataset_list_paths(struct dataset *dataset, const struct url_list *paths, struct err *err);
/* Immutable. */
struct dataset_scan_options {
    bool salvages;
    const struct log *log; /* reports skipped parts; may be NULL */
};

/* Opens every listed shard, and sets its samples, size and identity, and the dataset's samples,
 * fields, mean_sample_bytes and fingerprint. check_counts: the list's sample counts must be
 * correct, except for salvaged tars. Blocks. -EBADMSG names the shard; also returns errors of
 * shard_open. */
int dataset_list_scan(struct io *io, struct dataset *dataset, bool check_counts,
                      const struct dataset_scan_options *options, struct err *err);

#endif
