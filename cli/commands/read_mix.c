#include "cli/commands/read_mix.h"

#include "sampler/quality.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUALITY_GOAL 0.97 /* relative to a full shuffle */

static int add_weighted(struct read_mix *mix, const char *text, struct err *err)
{
    const char *equals = strrchr(text, '='); /* a path may contain '=', a weight does not */
    uint64_t weight = 0;
    if (!equals || equals == text || mix_weight_parse(equals + 1, &weight)) {
        err_set(err, -EINVAL, "--mix has an invalid value");
        err_expected(err, "DATASET=WEIGHT, for example shards/photos=3 or shards/drawings=0.25");
        err_found(err, "\"%.200s\"", text);
        return -EINVAL;
    }
    char *path = strndup(text, (size_t)(equals - text));
    if (!path)
        return err_set(err, -ENOMEM, "out of memory for the command line");
    mix->owned_paths[mix->count] = path;
    mix->sources[mix->count++] = (struct loader_source){.path = path, .weight = weight};
    return 0;
}

int read_mix_init(struct read_mix *mix, const char *dataset,
                  const struct option_list *weighted_datasets, struct err *err)
{
    size_t count = (dataset ? 1 : 0) + weighted_datasets->count;
    if (count == 0 || count > MIX_DATASETS_MAX) {
        err_set(err, -EINVAL,
                weighted_datasets->count ? "too many datasets" : "there is no dataset");
        err_expected(err, "DATASET, or --mix DATASET=WEIGHT for each of at most %d",
                     MIX_DATASETS_MAX);
        return -EINVAL;
    }
    if (dataset)
        mix->sources[mix->count++] =
            (struct loader_source){.path = dataset, .weight = MIX_WEIGHT_UNIT};
    int status = 0;
    for (size_t i = 0; i < weighted_datasets->count && !status; i++)
        status = add_weighted(mix, weighted_datasets->items[i], err);
    return status;
}

void read_mix_deinit(struct read_mix *mix)
{
    for (uint32_t i = 0; i < mix->count; i++)
        free(mix->owned_paths[i]);
}

void read_mix_apply(const struct read_mix *mix, struct loader_options *options)
{
    if (mix->count == 1) {
        options->dataset = mix->sources[0].path;
        return;
    }
    options->mix = mix->sources;
    options->mix_count = mix->count;
}

int read_mix_drop_cache(const struct read_mix *mix, struct err *err)
{
    struct io *io;
    int status = io_open(mix->sources[0].path, NULL, &io, err);
    if (status)
        return status;
    for (uint32_t i = 0; !status && i < mix->count; i++)
        status = dataset_drop_cache(io, mix->sources[i].path, err);
    io_close(io);
    return status;
}

static void write_params(struct jsonx_writer *json, const struct order_params *params)
{
    jsonx_write_u64(json, "lanes", params->lanes);
    jsonx_write_u64(json, "window", params->window);
    jsonx_write_u64(json, "run", params->run);
}

void read_mix_write_order(struct jsonx_writer *json, const struct loader *loader)
{
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(loader, &list);
    if (count == 1) {
        write_params(json, &list[0].order);
        return;
    }
    jsonx_write_u64(json, "lanes", loader_shape(loader).order.lanes);
    jsonx_begin_array(json, "datasets");
    for (uint32_t i = 0; i < count; i++) {
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "path", list[i].path);
        jsonx_write_u64(json, "weight", list[i].weight);
        jsonx_write_u64(json, "samples_count", list[i].order.samples);
        jsonx_write_u64(json, "delivered_count", list[i].delivered_count);
        write_params(json, &list[i].order);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

/* Adds the quality of the best parameters to best_sum. */
static int write_dataset_quality(struct jsonx_writer *json, const struct loader_dataset *dataset,
                                 const struct quality *current, struct quality *best_sum,
                                 struct err *err)
{
    struct order_params best;
    struct quality best_quality;
    int status = quality_improve(&dataset->order, current->batch_samples, QUALITY_GOAL, &best,
                                 &best_quality, err);
    if (status)
        return status;
    quality_add(best_sum, &best_quality);
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "path", dataset->path);
    jsonx_write_u64(json, "batch_count", current->batch_samples);
    jsonx_write_f64(json, "touched_count", current->touched_count);
    jsonx_write_f64(json, "full_count", current->full_shuffle_count);
    write_params(json, &dataset->order);
    jsonx_write_u64(json, "better_lanes", best.lanes);
    jsonx_write_u64(json, "better_window", best.window);
    jsonx_write_u64(json, "better_run", best.run);
    jsonx_end_object(json);
    return 0;
}

int read_mix_write_quality(struct jsonx_writer *json, const struct loader *loader, uint64_t batch,
                           struct err *err)
{
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(loader, &list);
    const struct order_params *orders[MIX_DATASETS_MAX];
    uint64_t weights[MIX_DATASETS_MAX];
    struct quality parts[MIX_DATASETS_MAX], current, consecutive, best = {0};
    for (uint32_t i = 0; i < count; i++) {
        orders[i] = &list[i].order;
        weights[i] = list[i].weight;
    }
    int status =
        quality_measure_mix(orders, weights, count, batch, QUALITY_POSITIONS, parts, &current, err);
    if (!status)
        status = quality_measure_mix(orders, weights, count, QUALITY_CONSECUTIVE * batch,
                                     QUALITY_POSITIONS, NULL, &consecutive, err);
    if (status)
        return status;
    jsonx_write_string(json, "order_kind", order_kind_name(list[0].order.kind));
    jsonx_begin_array(json, "datasets");
    for (uint32_t i = 0; i < count && !status; i++)
        status = write_dataset_quality(json, &list[i], &parts[i], &best, err);
    jsonx_end_array(json);
    if (status)
        return status;
    jsonx_write_f64(json, "quality", quality_ratio(&current));
    jsonx_write_f64(json, "better_quality", quality_ratio(&best));
    jsonx_write_f64(json, "quality_16_batches", quality_ratio(&consecutive));
    return 0;
}
