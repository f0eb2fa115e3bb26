/*
 * read_mix — the datasets of `millrace read`, their order and its quality.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_MIX_H
#define MILLRACE_CLI_COMMANDS_READ_MIX_H

#include "base/json/jsonx_writer.h"
#include "cli/verbs/options.h"
#include "loader/loader.h"

/* Zero before read_mix_init. */
struct read_mix {
    struct loader_source sources[MIX_DATASETS_MAX];
    char *owned_paths[MIX_DATASETS_MAX]; /* in sources */
    uint32_t count;
};

/* dataset (NULL: none) has weight 1; each item of weighted is DATASET=WEIGHT. -EINVAL: wrong
 * usage. */
int read_mix_init(struct read_mix *mix, const char *dataset, const struct option_list *weighted,
                  struct err *err);
void read_mix_deinit(struct read_mix *mix);
/* The options borrow from mix. */
void read_mix_apply(const struct read_mix *mix, struct loader_options *options);

/* Writes the order of one dataset as members of the open object, or of several as "datasets". */
void read_mix_write_order(struct jsonx_writer *json, const struct loader *loader);
/* Writes how well batches of `batch` samples are mixed, and parameters that mix better. -ENOMEM. */
int read_mix_write_quality(struct jsonx_writer *json, const struct loader *loader, uint64_t batch,
                           struct err *err);

#endif
