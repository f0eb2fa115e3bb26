/*
 * config_mix — data.train: a dataset, or a list of {path, weight} that is drawn from by weight. A
 * kind of configuration value; see config.h.
 *
 *     train: shards/photos                      # one dataset
 *     train:                                    # three of four samples are photos
 *       [{path: shards/photos, weight: 3}, {path: shards/drawings}]
 *
 * The list's leaves are data.train[0].path, data.train[0].weight and so on, as `--set` names them
 * too.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_MIX_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_MIX_H

#include "base/err.h"
#include "base/str.h"
#include "loader/loader.h"
#include "trainer/config/yaml.h"

enum { CONFIG_PATH_BYTES_MAX = 1024 };

struct json_t;

struct config_source {
    char path[CONFIG_PATH_BYTES_MAX];
    uint64_t weight; /* in 1 / MIX_WEIGHT_UNIT */
};

/* One entry, of an empty path, where no dataset is named. */
struct config_mix {
    uint64_t count;
    struct config_source sources[MIX_DATASETS_MAX];
};

/* A leaf of the key's own path (rest "") or of an entry (rest "[0].weight"). -EINVAL: no such
 * value; -ENOENT: no such key. */
int config_mix_read(struct config_mix *mix, const char *rest, const struct yaml_leaf *leaf);
/* Every entry names its dataset, and the weights can be mixed. -EINVAL with what, found and
 * advice. */
int config_mix_check(const struct config_mix *mix, struct err *err);
/* As JSON, which is YAML too: a text, or a list of objects. */
void config_mix_print(const struct config_mix *mix, struct str *out);
/* A list that config_mix_print wrote, parsed, as the same text again. */
void config_mix_print_saved(const struct json_t *list, struct str *out);

#endif
