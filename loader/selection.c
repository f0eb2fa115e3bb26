/*
 * selection — see selection.h.
 */
#include "loader/selection.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"
#include "loader/parts/name_list.h"
#include "loader/parts/sample_filter.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NO_SAMPLE = UINT32_MAX };
#define SELECTION_SAMPLES_MAX (UINT64_C(1) << 48)

struct selection {
    uint64_t count; /* with repetitions */
    uint64_t samples_count;
    uint32_t *samples; /* NULL: all */
    /* Of weights and balance: sums of the scaled weights of samples[0] to samples[i]; else NULL. */
    uint64_t *weight_sums;
    bool repeats;
    uint64_t seed, hash;
};

/* The samples of the keys in a file, while they are looked up. */
struct lookup {
    const char *path; /* of the file */
    const struct dataset *dataset;
    struct name_list keys;
    uint32_t *samples; /* by number in keys.names, or NO_SAMPLE */
    struct err *err;
};

bool selection_is_all(const struct loader_selection *options)
{
    return !options->keys && !options->order && !options->weights && !options->where &&
           !options->balance && options->repeat <= 1;
}

bool selection_has_order(const struct loader_selection *options)
{
    return options->order || options->weights || options->balance;
}

int selection_check(const struct loader_selection *options, struct err *err)
{
    bool filters = options->keys || options->where || options->balance;
    if (filters + !!options->order + !!options->weights <= 1)
        return 0;
    err_set(err, -EINVAL, "samples are selected in ways that contradict each other");
    err_expected(err, "only order, only weights, or keys, where and balance in any combination");
    err_advise(err, "remove the others");
    return -EINVAL;
}

/* ---- Keys. ---- */

static int repeated_key(const struct lookup *lookup, uint32_t number, uint64_t sample)
{
    err_set(lookup->err, -EINVAL, "two samples have the key \"%.80s\"",
            name_set_at(&lookup->keys.names, number));
    err_at(lookup->err, lookup->dataset->path, ERR_NO_OFFSET);
    err_expected(lookup->err, "one sample for each key of %.200s", lookup->path);
    err_found(lookup->err, "samples %" PRIu32 " and %" PRIu64, lookup->samples[number], sample);
    err_advise(lookup->err, "convert the dataset to unique keys");
    return -EINVAL;
}

static int find_keys(struct lookup *lookup, const struct shard *shard, uint64_t first)
{
    for (uint64_t i = 0; i < shard_index_samples(shard->index); i++) {
        uint32_t bytes, number;
        const char *key = shard_index_key(shard->index, i, &bytes);
        if (!name_set_find(&lookup->keys.names, key, bytes, &number))
            continue;
        if (lookup->samples[number] != NO_SAMPLE)
            return repeated_key(lookup, number, first + i);
        lookup->samples[number] = (uint32_t)(first + i);
    }
    return 0;
}

static int find_in_shards(struct lookup *lookup, struct shard_cache *cache, uint32_t number)
{
    int status = 0;
    for (uint64_t i = 0; i < lookup->dataset->shards_count && !status; i++) {
        uint64_t shard_number = shard_cache_first(cache, number) + i;
        struct shard *shard;
        status = shard_cache_get(cache, shard_number, OPEN_FILES_HALF, &shard, lookup->err);
        if (status)
            return status;
        status = find_keys(lookup, shard, lookup->dataset->shards[i].first_sample);
        shard_cache_put(cache, shard_number);
    }
    return status;
}

static uint32_t sample_of_line(const struct lookup *lookup, uint64_t line)
{
    return lookup->samples[name_list_number(&lookup->keys, line)];
}

static int check_all_found(const struct lookup *lookup)
{
    uint64_t missing = 0, first = 0;
    for (uint64_t line = lookup->keys.count; line-- > 0;)
        if (sample_of_line(lookup, line) == NO_SAMPLE) {
            missing++;
            first = line;
        }
    if (missing == 0)
        return 0;
    err_set(lookup->err, -EINVAL, "%.300s has no sample with the key in line %" PRIu64,
            lookup->dataset->path, first + 1);
    err_at(lookup->err, lookup->path, ERR_NO_OFFSET);
    err_found(lookup->err, "\"%.80s\"; missing keys: %" PRIu64 " of %" PRIu64,
              name_set_at(&lookup->keys.names, name_list_number(&lookup->keys, first)), missing,
              lookup->keys.count);
    err_advise(lookup->err, "list keys as `millrace read --print keys` prints them");
    return -EINVAL;
}

static int compare_samples(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Sums the weights of the samples. path: where the weights come from. */
static int add_weights(struct selection *selection, const double *weights, const char *path,
                       struct err *err)
{
    uint64_t sum = 0, count = selection->samples_count;
    double largest = 0;
    for (uint64_t i = 0; i < count; i++)
        largest = fmax(largest, weights[i]);
    if (largest == 0) {
        err_set(err, -EINVAL, "all weights are 0");
        err_at(err, path, ERR_NO_OFFSET);
        return -EINVAL;
    }
    selection->weight_sums = malloc(count * sizeof *selection->weight_sums);
    if (!selection->weight_sums)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " weights", count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t scaled = (uint64_t)(weights[i] / largest * 0x1p32);
        sum += weights[i] > 0 && scaled == 0 ? 1 : scaled;
        selection->weight_sums[i] = sum;
    }
    return 0;
}

static int list_samples(struct selection *selection, const struct loader_selection *options,
                        const struct lookup *lookup)
{
    uint64_t count = selection->samples_count = lookup->keys.count;
    int status = check_all_found(lookup);
    if (status)
        return status;
    selection->samples = malloc(count * sizeof *selection->samples);
    if (!selection->samples)
        return err_set(lookup->err, -ENOMEM, "out of memory for %" PRIu64 " samples", count);
    for (uint64_t line = 0; line < count; line++)
        selection->samples[line] = sample_of_line(lookup, line);
    if (options->keys)
        qsort(selection->samples, count, sizeof *selection->samples, compare_samples);
    return options->weights
               ? add_weights(selection, name_list_weights(&lookup->keys), lookup->path, lookup->err)
               : 0;
}

static int select_keys(struct selection *selection, const struct loader_selection *options,
                       struct io *io, struct shard_cache *cache, uint32_t number,
                       struct lookup *lookup)
{
    enum name_list_kind kind = options->order     ? NAME_LIST_REPEATED_KEYS
                               : options->weights ? NAME_LIST_WEIGHTED_KEYS
                                                  : NAME_LIST_KEYS;
    lookup->path = options->order  ? options->order
                   : options->keys ? options->keys
                                   : options->weights;
    int status = name_list_read(io, lookup->path, kind, &lookup->keys, lookup->err);
    if (status)
        return status;
    size_t bytes = name_set_count(&lookup->keys.names) * sizeof *lookup->samples;
    lookup->samples = malloc(bytes);
    if (!lookup->samples)
        return err_set(lookup->err, -ENOMEM, "out of memory for %" PRIu64 " keys",
                       lookup->keys.count);
    memset(lookup->samples, 0xff, bytes);
    status = find_in_shards(lookup, cache, number);
    return status ? status : list_samples(selection, options, lookup);
}

/* ---- Index fields. ---- */

/* Keeps the samples that meet the condition. */
static int select_where(struct selection *selection, struct sample_filter *filter,
                        const char *condition, struct err *err)
{
    struct str matches = {0};
    int status = sample_filter_where(filter, condition, &matches, err);
    if (status) {
        str_deinit(&matches);
        return status;
    }
    free(selection->samples);
    selection->samples = (uint32_t *)(void *)matches.data; /* takes the memory */
    selection->samples_count = matches.bytes / sizeof *selection->samples;
    filter->candidates = selection->samples;
    filter->candidates_count = selection->samples_count;
    return 0;
}

/* Weighs each sample by the inverse of its class's size. */
static int weigh_classes(struct selection *selection, const uint32_t *classes, const char *path,
                         struct err *err)
{
    uint64_t samples_count = selection->samples_count;
    uint32_t classes_count = 0;
    for (uint64_t i = 0; i < samples_count; i++)
        classes_count = classes[i] < classes_count ? classes_count : classes[i] + 1;
    uint64_t *counts = calloc(classes_count, sizeof *counts);
    double *weights = malloc(samples_count * sizeof *weights);
    int status = counts && weights ? 0
                                   : err_set(err, -ENOMEM, "out of memory for %" PRIu64 " weights",
                                             samples_count);
    for (uint64_t i = 0; i < samples_count && !status; i++)
        counts[classes[i]]++;
    for (uint64_t i = 0; i < samples_count && !status; i++)
        weights[i] = 1 / (double)counts[classes[i]];
    if (!status)
        status = add_weights(selection, weights, path, err);
    free(counts);
    free(weights);
    return status;
}

static int select_by_index(struct selection *selection, const struct loader_selection *options,
                           struct shard_cache *cache, uint32_t number,
                           const struct dataset *dataset, struct err *err)
{
    struct str classes = {0};
    struct sample_filter filter = {.dataset = dataset,
                                   .cache = cache,
                                   .first_shard = shard_cache_first(cache, number),
                                   .candidates = selection->samples,
                                   .candidates_count = selection->samples_count};
    int status = options->where ? select_where(selection, &filter, options->where, err) : 0;
    if (status || !options->balance)
        return status;
    status = sample_filter_classes(&filter, options->balance, &classes, err);
    if (!status)
        status = weigh_classes(selection, (const uint32_t *)(const void *)classes.data,
                               dataset->path, err);
    str_deinit(&classes);
    return status;
}

/* ---- All. ---- */

static int too_many_samples(const struct dataset *dataset, uint64_t maximum, struct err *err)
{
    err_set(err, -EINVAL, "the dataset has too many samples to select from");
    err_at(err, dataset->path, ERR_NO_OFFSET);
    err_expected(err, "at most %" PRIu64, maximum);
    err_found(err, "%" PRIu64, dataset->samples);
    return -EINVAL;
}

static int hash_selection(struct selection *selection, struct err *err)
{
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for a selection");
    hash_stream_update(hash, &selection->count, sizeof selection->count);
    if (selection->samples)
        hash_stream_update(hash, selection->samples,
                           selection->samples_count * sizeof *selection->samples);
    if (selection->weight_sums)
        hash_stream_update(hash, selection->weight_sums,
                           selection->samples_count * sizeof *selection->weight_sums);
    selection->hash = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

int selection_open(const struct loader_selection *options, struct io *io, uint64_t seed,
                   const struct dataset *dataset, struct shard_cache *cache, uint32_t number,
                   uint64_t samples, struct selection **ret_selection, struct err *err)
{
    struct selection *selection = calloc(1, sizeof *selection);
    struct lookup lookup = {.dataset = dataset, .err = err};
    uint64_t repeat = options->repeat ? options->repeat : 1;
    int status = 0;
    if (!selection)
        return err_set(err, -ENOMEM, "out of memory for a selection");
    selection->seed = seed;
    selection->samples_count = samples;
    selection->repeats = repeat > 1 || selection_has_order(options);
    if ((options->keys || selection_has_order(options) || options->where) &&
        dataset->samples > NO_SAMPLE)
        status = too_many_samples(dataset, NO_SAMPLE, err);
    if (!status && (options->keys || options->order || options->weights))
        status = select_keys(selection, options, io, cache, number, &lookup);
    if (!status && (options->where || options->balance))
        status = select_by_index(selection, options, cache, number, dataset, err);
    name_list_deinit(&lookup.keys);
    free(lookup.samples);
    if (!status && selection->samples_count >= SELECTION_SAMPLES_MAX / repeat) {
        err_set(err, -EINVAL, "an epoch has too many samples");
        err_at(err, dataset->path, ERR_NO_OFFSET);
        err_expected(err, "fewer than 2^48");
        err_found(err, "%" PRIu64 " times %" PRIu64, repeat, selection->samples_count);
        status = -EINVAL;
    }
    selection->count = selection->samples_count * repeat;
    if (!status)
        status = hash_selection(selection, err);
    if (status)
        selection_close(selection);
    else
        *ret_selection = selection;
    return status;
}

void selection_close(struct selection *selection)
{
    if (!selection)
        return;
    free(selection->samples);
    free(selection->weight_sums);
    free(selection);
}

uint64_t selection_count(const struct selection *selection)
{
    return selection->count;
}

bool selection_repeats(const struct selection *selection)
{
    return selection->repeats;
}

uint64_t selection_hash(const struct selection *selection)
{
    return selection->hash;
}

/* Returns the number of the first sum above the draw. */
static uint64_t draw(const struct selection *selection, struct sample_ref ref)
{
    struct philox_block block =
        philox_sample(selection->seed, ref.dataset, ref.epoch, ref.sample, PHILOX_DRAW, 0);
    uint64_t first = 0, end = selection->samples_count - 1;
    uint64_t random = (uint64_t)block.word[0] << 32 | block.word[1];
    uint64_t place = (uint64_t)((unsigned __int128)random * selection->weight_sums[end] >> 64);
    while (first < end) {
        uint64_t middle = first + (end - first) / 2;
        if (selection->weight_sums[middle] > place)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

uint64_t selection_sample(const struct selection *selection, struct sample_ref ref)
{
    uint64_t number =
        selection->weight_sums ? draw(selection, ref) : ref.sample % selection->samples_count;
    return selection->samples ? selection->samples[number] : number;
}
