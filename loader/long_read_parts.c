/*
 * long_read_parts — the parts that long reads fetch and keep, and their memory (long_reads.h).
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- Parts. ---- */

const struct order_params *long_reads_order(const struct loader *loader, uint32_t dataset)
{
    return &loader->datasets[dataset].order;
}

static bool has_neighbors(const struct order_params *order)
{
    return order->kind == ORDER_SEQUENTIAL || (order->window == 1 && order->run > 1);
}

/* True if a lane of the dataset always belongs to the same micro-batch of a step: l mod M. */
static bool has_fixed_lanes(const struct loader *loader, uint32_t dataset)
{
    uint64_t lanes = long_reads_order(loader, dataset)->lanes;
    return lanes % batching_micros(&loader->options.batching) == 0 &&
           (loader->sources_count == 1 || sampler_lanes(loader->reader.sampler) == lanes);
}

uint64_t long_reads_group_samples(const struct loader *loader, uint32_t dataset)
{
    uint64_t mean_bytes = view_mean_bytes(loader->sources[dataset].view);
    uint64_t samples = ORDER_RUN_BYTES / (mean_bytes ? mean_bytes : 1);
    return samples == 0 ? 1 : bytes_min(samples, LONG_READ_SAMPLES_MAX);
}

uint64_t long_reads_part_samples(const struct loader *loader, uint32_t dataset, uint32_t quarters)
{
    const struct order_params *order = long_reads_order(loader, dataset);
    if (order->kind == ORDER_SEQUENTIAL)
        return long_reads_group_samples(loader, dataset);
    uint64_t run = bytes_min(order->run, LONG_READ_SAMPLES_MAX);
    return (run * quarters + ORDER_QUARTERS - 1) / ORDER_QUARTERS;
}

static uint64_t count_parts(const struct loader *loader, uint32_t dataset)
{
    const struct batching *batching = &loader->options.batching;
    const struct order_params *order = long_reads_order(loader, dataset);
    if (loader->sources[dataset].is_resident)
        return (order->samples - 1) / long_reads_group_samples(loader, dataset) + 1;
    if (!has_neighbors(order))
        return 0;
    return has_fixed_lanes(loader, dataset)
               ? order->lanes / batching_micros(batching) * batching_owned_count(batching)
               : order->lanes;
}

uint64_t long_reads_parts(const struct loader *loader)
{
    uint64_t parts = 0;
    for (uint32_t i = 0; i < loader->sources_count; i++)
        parts += count_parts(loader, i);
    return parts;
}

void long_reads_warn_about_lanes(const struct loader *loader)
{
    const struct batching *batching = &loader->options.batching;
    uint64_t micros = batching_micros(batching);
    for (uint32_t i = 0; i < loader->sources_count && batching->ranks > 1; i++) {
        const struct order_params *order = long_reads_order(loader, i);
        if (order->kind != ORDER_SHUFFLE || !has_neighbors(order) || order->lanes % micros == 0)
            continue;
        log_line(loader->options.log, LOG_WARN,
                 "%s: the order's %" PRIu64 " lanes are not a multiple of the %" PRIu64
                 " micro-batches of a step, so ranks share runs and need several times as many "
                 "reads; the samples are the same",
                 loader->sources[i].dataset->path, order->lanes, micros);
    }
}

/* Returns the part that the lane is in, or NULL. */
static struct kept_part *find_lane_part(const struct loader *loader, uint32_t dataset,
                                        uint64_t lane)
{
    const struct batching *batching = &loader->options.batching;
    const struct long_reads *reads = &loader->reader.long_reads;
    uint64_t index = lane, micros = batching_micros(batching), n;
    uint64_t count = reads->first_parts[dataset + 1] - reads->first_parts[dataset];
    if (count == 0)
        return NULL;
    if (has_fixed_lanes(loader, dataset)) {
        /* another rank's lane, in what is left of a step (options.micros_done) */
        if (!batching_owned_index(batching, lane % micros, &n))
            return NULL;
        index = lane / micros * batching_owned_count(batching) + n;
    }
    assert(index < count);
    return &reads->parts[reads->first_parts[dataset] + index];
}

static struct kept_part *find_group(const struct loader *loader, uint32_t dataset, uint64_t sample)
{
    const struct long_reads *reads = &loader->reader.long_reads;
    uint64_t index = sample / long_reads_group_samples(loader, dataset);
    assert(index < reads->first_parts[dataset + 1] - reads->first_parts[dataset]);
    return &reads->parts[reads->first_parts[dataset] + index];
}

struct kept_part *long_reads_find_part(const struct loader *loader, struct mix_location location,
                                       uint64_t sample)
{
    if (loader->sources[location.dataset].is_resident)
        return find_group(loader, location.dataset, sample);
    return find_lane_part(loader, location.dataset,
                          location.position % long_reads_order(loader, location.dataset)->lanes);
}

/* ---- Memory. ---- */

/* The shards' files, each sample read as part of one chunk. Saturates at UINT64_MAX. */
static uint64_t resident_bytes(const struct loader *loader, uint32_t dataset)
{
    const struct load_source *source = &loader->sources[dataset];
    uint64_t groups =
        (view_samples(source->view) - 1) / long_reads_group_samples(loader, dataset) + 1;
    uint64_t bytes;
    if (__builtin_mul_overflow(groups, 2 * READ_ARENA_PAGE_BYTES, &bytes) ||
        __builtin_add_overflow(bytes, dataset_uncompressed_bytes(source->dataset), &bytes))
        return UINT64_MAX;
    return bytes;
}

void long_reads_choose_resident(struct loader *loader, uint64_t bytes)
{
    const struct loader_options *options = &loader->options;
    /* in one epoch, each of several ranks needs only a part of the samples */
    bool is_useful = options->batching.ranks == 1 || options->epochs_max != 1;
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        uint64_t own_bytes = resident_bytes(loader, i);
        loader->sources[i].is_resident =
            is_useful && own_bytes <= bytes && !view_repeats(loader->sources[i].view);
        bytes -= loader->sources[i].is_resident ? own_bytes : 0;
    }
}

/* Saturates at UINT64_MAX. */
static uint64_t lanes_bytes(const struct loader *loader, uint32_t dataset, uint32_t quarters)
{
    const struct view *view = loader->sources[dataset].view;
    /* a long read also fetches what lies between the fields, such as tar headers */
    uint64_t samples = view_samples(view),
             mean_bytes =
                 dataset_uncompressed_bytes(loader->sources[dataset].dataset) / samples + 1;
    uint64_t more_bytes = view_block_bytes(view) + 2 * READ_ARENA_PAGE_BYTES;
    uint64_t bytes;
    if (__builtin_mul_overflow(long_reads_part_samples(loader, dataset, quarters), mean_bytes,
                               &bytes) ||
        __builtin_add_overflow(bytes, more_bytes, &bytes) ||
        __builtin_mul_overflow(bytes, count_parts(loader, dataset), &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t long_reads_bytes(const struct loader *loader, uint32_t quarters)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        uint64_t bytes = loader->sources[i].is_resident ? resident_bytes(loader, i)
                                                        : lanes_bytes(loader, i, quarters);
        if (__builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

int long_reads_init(struct loader *loader, uint32_t quarters, uint64_t bytes_max,
                    uint64_t all_bytes_max)
{
    struct long_reads *reads = &loader->reader.long_reads;
    reads->quarters = quarters;
    reads->bytes_max = bytes_max;
    reads->all_bytes_max = all_bytes_max;
    uint64_t parts = quarters ? long_reads_parts(loader) : 0;
    reads->parts = calloc(parts ? parts : 1, sizeof *reads->parts);
    reads->first_parts = calloc(loader->sources_count + 1, sizeof *reads->first_parts);
    if (!reads->parts || !reads->first_parts)
        return -ENOMEM;
    for (uint32_t i = 0; quarters && i < loader->sources_count; i++)
        reads->first_parts[i + 1] = reads->first_parts[i] + count_parts(loader, i);
    return 0;
}

void long_reads_deinit(struct long_reads *reads)
{
    free(reads->first_parts);
    free(reads->parts);
    *reads = (struct long_reads){0};
}
