/*
 * config_mix — see config_mix.h.
 */
#include "trainer/config/config_mix.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_LIMIT = 1000000000 /* nine digits */ };

static int set_path(struct config_source *source, const struct yaml_leaf *leaf)
{
    if (leaf->is_sequence || strlen(leaf->values[0]) >= sizeof source->path)
        return -EINVAL;
    snprintf(source->path, sizeof source->path, "%s", leaf->values[0]);
    return 0;
}

static void init_entries(struct config_mix *mix, uint64_t count)
{
    memset(mix, 0, sizeof *mix);
    mix->count = count;
    for (uint64_t i = 0; i < count; i++)
        mix->sources[i].weight = MIX_WEIGHT_UNIT;
}

static int read_value(struct config_mix *mix, const struct yaml_leaf *leaf)
{
    if (leaf->is_sequence) {
        if (leaf->mappings_count < 1 || leaf->mappings_count > MIX_DATASETS_MAX)
            return -EINVAL;
        init_entries(mix, leaf->mappings_count); /* the leaves of the entries follow */
        return 0;
    }
    init_entries(mix, 1);
    return set_path(&mix->sources[0], leaf);
}

int config_mix_read(struct config_mix *mix, const char *subpath, const struct yaml_leaf *leaf)
{
    if (!subpath[0])
        return read_value(mix, leaf);
    char *end;
    unsigned long index = strtoul(subpath + 1, &end, 10);
    if (subpath[1] < '0' || subpath[1] > '9' || strncmp(end, "].", 2) != 0 || index > mix->count ||
        index >= MIX_DATASETS_MAX)
        return -ENOENT;
    struct config_source entry = {.weight = MIX_WEIGHT_UNIT};
    if (index < mix->count)
        entry = mix->sources[index];
    int status = -ENOENT;
    if (strcmp(end + 2, "path") == 0)
        status = set_path(&entry, leaf);
    else if (strcmp(end + 2, "weight") == 0)
        status = leaf->is_sequence ? -EINVAL : mix_weight_parse(leaf->values[0], &entry.weight);
    if (status)
        return status;
    mix->sources[index] = entry;
    mix->count += index == mix->count; /* --set may append an entry */
    return 0;
}

int config_mix_check(const struct config_mix *mix, struct err *err)
{
    uint64_t weights[MIX_DATASETS_MAX];
    for (uint64_t i = 0; i < mix->count; i++) {
        weights[i] = mix->sources[i].weight;
        if (mix->sources[i].path[0])
            continue;
        if (mix->count == 1)
            err_set(err, -EINVAL, "data.train is not set");
        else
            err_set(err, -EINVAL, "data.train[%" PRIu64 "].path is not set", i);
        err_advise(err, "set it to the dataset.json to train on");
        return -EINVAL;
    }
    return mix_weights_reduce(weights, (uint32_t)mix->count, err);
}

static void print_weight(struct jsonx_writer *json, uint64_t weight)
{
    char text[32];
    int bytes = snprintf(text, sizeof text, "%" PRIu64, weight / MIX_WEIGHT_UNIT);
    if (weight % MIX_WEIGHT_UNIT) {
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, ".%06" PRIu64,
                          weight % MIX_WEIGHT_UNIT);
        while (text[bytes - 1] == '0')
            bytes--;
    }
    jsonx_write_raw(json, "weight", text, (size_t)bytes);
}

static void print_entry(struct jsonx_writer *json, const char *path, uint64_t weight)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "path", path);
    print_weight(json, weight);
    jsonx_end_object(json);
}

void config_mix_print(const struct config_mix *mix, struct str *out)
{
    struct jsonx_writer json = {.out = out};
    if (mix->count == 1) {
        jsonx_write_string(&json, NULL, mix->sources[0].path);
        return;
    }
    jsonx_begin_array(&json, NULL);
    for (uint64_t i = 0; i < mix->count; i++)
        print_entry(&json, mix->sources[i].path, mix->sources[i].weight);
    jsonx_end_array(&json);
}

void config_mix_print_saved(const struct json_t *list, struct str *out)
{
    struct jsonx_writer json = {.out = out};
    jsonx_begin_array(&json, NULL);
    for (size_t i = 0; i < jsonx_count(list); i++) {
        const struct json_t *entry = jsonx_at(list, i);
        const char *path = "";
        /* at most nine digits before the point and six after it: exact in a double */
        double weight = 0;
        jsonx_text(jsonx_get(entry, "path"), &path);
        jsonx_f64(jsonx_get(entry, "weight"), &weight);
        jsonx_begin_object(&json, NULL);
        jsonx_write_string(&json, "path", path);
        if (weight >= 0 && weight < WEIGHT_LIMIT)
            print_weight(&json, (uint64_t)(weight * MIX_WEIGHT_UNIT + 0.5));
        else /* invalid: print it unchanged */
            jsonx_write_f64(&json, "weight", weight);
        jsonx_end_object(&json);
    }
    jsonx_end_array(&json);
}
