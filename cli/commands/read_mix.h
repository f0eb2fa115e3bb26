/*
 * read_mix — the datasets that `millrace read` was given, and what it says of them: how each is
 * shuffled, and how well.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_MIX_H
#define MILLRACE_CLI_COMMANDS_READ_MIX_H

#include "base/jsonx_writer.h"
#include "cli/core/options.h"
#include "loader/loader.h"

/* Zero before read_mix_init. */
struct read_mix {
    struct loader_source sources[MIX_DATASETS_MAX];
    char *texts[MIX_DATASETS_MAX]; /* paths of sources, where they are ours */
    uint32_t count;
};

/* dataset (NULL: none), with weight 1, then each DATASET=WEIGHT. -EINVAL: wrong usage. */
int read_mix_init(struct read_mix *mix, const char *dataset, const struct option_list *weighted,
                  struct err *err);
void read_mix_deinit(struct read_mix *mix);
/* Into the loader's options, which borrow. */
void read_mix_apply(const struct read_mix *mix, struct loader_options *options);

/* The order of the one dataset as members of the open object, or of each as "datasets". */
void read_mix_write_order(struct jsonx_writer *json, const struct loader *loader);
/* How well batches of so many samples are mixed, and what would mix them better. -ENOMEM. */
int read_mix_write_quality(struct jsonx_writer *json, const struct loader *loader, uint64_t batch,
                           struct err *err);

#endif
