/*
 * sources — opens the datasets of a loader, checks that they agree, and gives each its view and
 * order (state.h).
 *
 * Datasets must agree on what makes up a batch: class names (images), tokens (text), all fields
 * (bytes) or the requested ones (records).
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/os/cgroup.h"
#include "base/os/machine.h"
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "sampler/quality.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More lanes mix consecutive batches better, which matters if neighbors are alike. */
enum { LANES_UNSHUFFLED_FACTOR = 4 };

/* ---- Agreement. ---- */

static int mix_mismatch(const struct dataset *first, const struct dataset *other, const char *what,
                        struct err *err)
{
    err_set(err, -EINVAL, "a dataset of the mix differs from %.200s in its %s", first->path, what);
    err_at(err, other->path, ERR_NO_OFFSET);
    err_advise(err, "mix datasets converted with the same options, or train on one of them");
    return -EINVAL;
}

static int check_classes(const struct dataset *first, const struct dataset *other, struct err *err)
{
    if (first->classes_count != other->classes_count) {
        int status = mix_mismatch(first, other, "classes", err);
        err_expected(err, "%" PRIu64 " class names", first->classes_count);
        err_found(err, "%" PRIu64, other->classes_count);
        return status;
    }
    for (uint64_t i = 0; i < first->classes_count; i++) {
        if (strcmp(first->classes[i], other->classes[i]) == 0)
            continue;
        int status = mix_mismatch(first, other, "classes", err);
        err_expected(err, "class %" PRIu64 " \"%.80s\"", i, first->classes[i]);
        err_found(err, "\"%.80s\"", other->classes[i]);
        return status;
    }
    return 0;
}

static int check_text(const struct dataset *first, const struct dataset *other, struct err *err)
{
    const struct loader_schema a = dataset_schema(first), b = dataset_schema(other);
    char text[SCHEMA_TEXT_BYTES];
    if (schema_has_same_tokens(&a, &b))
        return 0;
    int status = mix_mismatch(first, other, "tokens", err);
    err_expected(err, "%s", schema_describe_tokens(&a, text));
    err_found(err, "%s", schema_describe_tokens(&b, text));
    return status;
}

/* Returns the first field of a that b lacks. */
static const char *missing_field(const struct dataset *a, const struct dataset *b)
{
    for (uint32_t i = 0; i < a->fields_count; i++)
        if (!dataset_has_field(b, a->fields[i], strlen(a->fields[i])))
            return a->fields[i];
    return NULL;
}

static int check_fields(const struct dataset *first, const struct dataset *other, struct err *err)
{
    const char *missing = missing_field(first, other), *added = missing_field(other, first);
    if (!missing && !added)
        return 0;
    int status = mix_mismatch(first, other, "fields", err);
    err_expected(err, missing ? "a field \"%s\"" : "no field \"%s\"", missing ? missing : added);
    err_found(err, missing ? "none" : "one");
    return status;
}

static int check_agreement(const struct loader *loader, struct err *err)
{
    const struct dataset *first = loader->sources[0].dataset;
    int status = 0;
    for (uint32_t i = 1; !status && i < loader->sources_count; i++) {
        const struct dataset *other = loader->sources[i].dataset;
        switch (loader->options.decode) {
        case LOADER_IMAGE:
            if (label_is_stored_class(&loader->options.image.label))
                status = check_classes(first, other, err);
            break;
        case LOADER_TOKENS:
            status = check_text(first, other, err);
            break;
        case LOADER_BYTES:
            status = check_fields(first, other, err);
            break;
        case LOADER_RECORD: /* view_open finds each of options.fields in each dataset */
            break;
        }
    }
    return status;
}

/* ---- Opening. ---- */

uint64_t loader_default_lanes(const struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    uint64_t lanes = options->order_global ? options->order_global : options->batching.global;
    for (uint32_t i = 0; i < loader->sources_count; i++)
        if (!loader->sources[i].dataset->is_shuffled)
            return LANES_UNSHUFFLED_FACTOR * lanes;
    return lanes;
}

static int open_view(struct loader *loader, uint32_t number, struct err *err)
{
    struct load_source *source = &loader->sources[number];
    const struct loader_options *options = &loader->options;
    const struct dataset *dataset = source->dataset;
    char shard_path[IO_PATH_BYTES_MAX];
    int status = view_open(options, loader->io, dataset, loader->cache, number, &source->view, err);
    if (status)
        return status;
    if (view_samples(source->view) == 0) {
        err_set(err, -EBADMSG, "the dataset has no samples");
        err_at(err, dataset->path, ERR_NO_OFFSET);
        err_advise(err, "name the members of a tar KEY.EXTENSION, for example `0001.jpg`");
        return -EBADMSG;
    }
    status = dataset_shard_path(dataset, 0, shard_path, err);
    if (status)
        return status;
    source->gap_bytes_max = io_gap_bytes(loader->io, shard_path);
    struct loader_dataset *info = &loader->datasets[number];
    info->path = dataset->path;
    info->fingerprint = view_fingerprint(source->view);
    info->order = (struct order_params){.kind = options->order,
                                        .dataset = number,
                                        .samples = view_samples(source->view),
                                        .seed = options->seed,
                                        .lanes = options->lanes,
                                        .window = options->window,
                                        .run = options->run};
    order_params_resolve(&info->order, view_mean_bytes(source->view), loader_default_lanes(loader));
    return 0;
}

static int init_weights(struct loader *loader, const struct loader_source *list, uint32_t count,
                        struct err *err)
{
    uint64_t weights[MIX_DATASETS_MAX] = {0};
    for (uint32_t i = 0; i < count && i < MIX_DATASETS_MAX; i++)
        weights[i] = list[i].weight;
    int status = mix_weights_reduce(weights, count, err);
    if (status)
        return status;
    loader->sources = calloc(count, sizeof loader->sources[0]);
    loader->datasets = calloc(count, sizeof loader->datasets[0]);
    if (!loader->sources || !loader->datasets)
        return err_set(err, -ENOMEM, "out of memory for a mix of %" PRIu32 " datasets", count);
    loader->sources_count = count;
    for (uint32_t i = 0; i < count; i++)
        loader->datasets[i].weight = weights[i];
    return 0;
}

static int open_cache(struct loader *loader, struct err *err)
{
    const struct dataset *datasets[MIX_DATASETS_MAX];
    for (uint32_t i = 0; i < loader->sources_count; i++)
        datasets[i] = loader->sources[i].dataset;
    return shard_cache_open(loader->io, datasets, loader->sources_count, &loader->cache, err);
}

/* Rejects damaged tars under LOADER_BAD_STOP. */
static int open_dataset(struct loader *loader, const char *path, struct dataset **ret_dataset,
                        struct err *err)
{
    if (loader->options.bad_policy == LOADER_BAD_STOP)
        return dataset_open(loader->io, path, ret_dataset, err);
    int status = dataset_open_salvaging(loader->io, path, loader->options.log, ret_dataset, err);
    if (!status)
        loader->stats.left_out_count += (*ret_dataset)->left_out_count;
    return status;
}

/* A queue of requests belongs to one backend. */
static int check_storage(const struct loader *loader, const struct loader_source *list, uint32_t i,
                         struct err *err)
{
    if (io_serves(loader->io, list[i].path))
        return 0;
    err_set(err, -EXDEV, "the datasets of a mix are on different kinds of storage");
    err_at(err, list[i].path, ERR_NO_OFFSET);
    err_expected(err, "the storage of %.200s", list[0].path);
    err_advise(err, "copy one of them to the storage of the other");
    return -EXDEV;
}

/* If a dataset is compressed, all are read through storage that decompresses. */
static int open_seekable_io(struct loader *loader, struct err *err)
{
    bool is_compressed = false;
    for (uint32_t i = 0; i < loader->sources_count; i++)
        is_compressed = is_compressed || dataset_is_compressed(loader->sources[i].dataset);
    if (!is_compressed)
        return 0;
    int status = seekable_io_open(loader->io, loader->options.workers, &loader->seekable_io, err);
    if (!status)
        loader->io = loader->seekable_io;
    return status;
}

int loader_sources_open(struct loader *loader, const struct loader_source *list, uint32_t count,
                        struct err *err)
{
    int status = init_weights(loader, list, count, err);
    for (uint32_t i = 0; !status && i < count; i++)
        status = check_storage(loader, list, i, err);
    for (uint32_t i = 0; !status && i < count; i++)
        status = open_dataset(loader, list[i].path, &loader->sources[i].dataset, err);
    if (!status)
        status = open_seekable_io(loader, err);
    if (!status)
        status = check_agreement(loader, err);
    if (!status)
        status = label_open(loader, err);
    if (!status)
        status = loader_check_schema(loader, err);
    if (!status)
        status = open_cache(loader, err);
    for (uint32_t i = 0; !status && i < count; i++)
        status = open_view(loader, i, err);
    return status;
}

void loader_sources_close(struct loader *loader)
{
    for (uint32_t i = 0; i < loader->sources_count; i++)
        view_close(loader->sources[i].view);
    shard_cache_close(loader->cache);
    for (uint32_t i = 0; i < loader->sources_count; i++)
        dataset_close(loader->sources[i].dataset);
    label_close(loader);
    free(loader->label_map);
    free(loader->sources);
    free(loader->datasets);
}

/* ---- Queries. ---- */

bool loader_sources_outgrow_memory(const struct loader *loader)
{
    struct machine_memory memory;
    struct cgroup_limits limits;
    uint64_t bytes = 0;
    if (machine_read_memory(&memory))
        return false;
    cgroup_read_limits("", &limits);
    uint64_t available = memory.available_bytes;
    if (limits.memory_bytes > 0)
        available = bytes_min(available, limits.memory_bytes);
    for (uint32_t i = 0; i < loader->sources_count; i++)
        bytes += dataset_file_bytes(loader->sources[i].dataset);
    return bytes > available / 2;
}

uint64_t loader_sources_fingerprint(const struct loader *loader)
{
    uint64_t fingerprints[MIX_DATASETS_MAX], weights[MIX_DATASETS_MAX];
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        fingerprints[i] = loader->datasets[i].fingerprint;
        weights[i] = loader->datasets[i].weight;
    }
    return sampler_mix_fingerprint(fingerprints, weights, loader->sources_count);
}

int loader_quality(const struct loader *loader, double *ret_ratio, struct err *err)
{
    const struct order_params *orders[MIX_DATASETS_MAX];
    uint64_t weights[MIX_DATASETS_MAX];
    struct quality sum;
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        orders[i] = &loader->datasets[i].order;
        weights[i] = loader->datasets[i].weight;
    }
    int status =
        quality_measure_mix(orders, weights, loader->sources_count, loader->options.batching.global,
                            QUALITY_POSITIONS_QUICK, NULL, &sum, err);
    if (!status)
        *ret_ratio = quality_ratio(&sum);
    return status;
}

uint32_t loader_datasets(const struct loader *loader, const struct loader_dataset **ret_list)
{
    *ret_list = loader->datasets;
    return loader->sources_count;
}
