/*
 * read_mix — the datasets of `millrace read` and the quality of their order.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_MIX_H
#define MILLRACE_CLI_COMMANDS_READ_MIX_H

#include "base/json/jsonx_writer.h"
#include "cli/verbs/options.h"
#include "loader/loader.h"

/* Zero it before read_mix_init. */
struct read_mix {
    struct loader_source sources[MIX_DATASETS_MAX];
    char *owned_paths[MIX_DATASETS_MAX]; /* borrowed by sources */
    uint32_t count;
};

/* dataset (NULL: none) has weight 1; weighted_datasets: DATASET=WEIGHT. -EINVAL: wrong usage. */
int read_mix_init(struct read_mix *mix, const char *dataset,
                  const struct option_list *weighted_datasets, struct err *err);
void read_mix_deinit(struct read_mix *mix);
/* The options borrow from mix. */
void read_mix_apply(const struct read_mix *mix, struct loader_options *options);
/* Drops the datasets from the page cache, without injected faults. Errors of dataset_drop_cache. */
int read_mix_drop_cache(const struct read_mix *mix, struct err *err);

/* Writes the order of one dataset into the open object. Several go into an array "datasets", after
 * the lanes of the mix. */
void read_mix_write_order(struct jsonx_writer *json, const struct loader *loader);
/* Writes the mixing quality of batches of `batch` samples, and better parameters. -ENOMEM. */
int read_mix_write_quality(struct jsonx_writer *json, const struct loader *loader, uint64_t batch,
                           struct err *err);

#endif
