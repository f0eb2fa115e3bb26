/*
 * config_mix — data.train: a dataset, or a list of {path, weight} sampled by weight.
 *
 *     train: shards/photos                      # one dataset
 *     train:                                    # three out of four samples are photos
 *       [{path: shards/photos, weight: 3}, {path: shards/drawings}]
 *
 * Leaves are data.train[0].path, data.train[0].weight and so on, also in `--set`.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_MIX_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_MIX_H

#include "base/err.h"
#include "base/str.h"
#include "base/yaml/yaml.h"
#include "io/io.h"
#include "loader/loader.h"

struct json_t;

struct config_source {
    char path[IO_PATH_BYTES_MAX];
    uint64_t weight; /* in units of 1 / MIX_WEIGHT_UNIT */
};

/* Without a dataset, it has a single entry with an empty path. */
struct config_mix {
    uint64_t count;
    struct config_source sources[MIX_DATASETS_MAX];
};

/* subpath: below data.train: "" or "[0].weight". -EINVAL: wrong value; -ENOENT: unknown key. */
int config_mix_read(struct config_mix *mix, const char *subpath, const struct yaml_leaf *leaf);
/* -EINVAL if an entry has no path, or the weights cannot be mixed. */
int config_mix_check(const struct config_mix *mix, struct err *err);
/* Prints JSON: a string, or a list of objects. */
void config_mix_print(const struct config_mix *mix, struct str *out);
/* Like config_mix_print, for a parsed JSON list. */
void config_mix_print_saved(const struct json_t *list, struct str *out);

#endif
