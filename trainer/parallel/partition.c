/*
 * partition — see partition.h.
 */
#include "trainer/parallel/partition.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_aligned(uint64_t element)
{
    return element % PARAMS_ALIGN == 0;
}

/* Returns the first valid cut at or after `at`: an aligned start of a row, or padding. */
static uint64_t next_cut(const struct params *params, const struct param_group *group, uint64_t at)
{
    uint64_t end = group->offset + group->elements;
    for (uint64_t i = group->first; i < group->first + group->count; i++) {
        const struct param *param = &params->list[i];
        uint64_t row = param_row_elements(param);
        if (at >= param->offset + param->count)
            continue;
        uint64_t from = at > param->offset ? at : param->offset;
        uint64_t cut = param->offset + (from - param->offset + row - 1) / row * row;
        while (cut < param->offset + param->count && !is_aligned(cut))
            cut += row;
        if (is_aligned(cut))
            return cut < end ? cut : end;
        at = cut; /* the next tensor shares the aligned block */
    }
    uint64_t cut = bytes_round_up(at, PARAMS_ALIGN);
    return cut < end ? cut : end;
}

/* Returns the cut's offset in the arena of trained parameters. */
static uint64_t trained_offset_of(const struct params *params, const struct param_group *group,
                                  uint64_t cut)
{
    if (cut == group->offset + group->elements)
        return group->trained_offset + group->trained_elements;
    const struct param *param = &params->list[group->first];
    const struct param *end = param + group->count;
    while (param + 1 < end && param[1].offset <= cut)
        param++;
    return param->trained_offset + (param->frozen ? 0 : cut - param->offset);
}

static void cut_group(struct partition *partition, uint64_t g)
{
    const struct param_group *group = &partition->params->groups[g];
    uint32_t ranks = partition->options.ranks;
    uint64_t *cuts = partition->cuts + g * (ranks + 1);
    cuts[0] = group->offset;
    for (uint32_t i = 1; i < ranks; i++) {
        /* i/ranks of the elements, without overflow */
        uint64_t ideal = group->elements / ranks * i + group->elements % ranks * i / ranks;
        uint64_t cut = next_cut(partition->params, group, group->offset + ideal);
        cuts[i] = cut > cuts[i - 1] ? cut : cuts[i - 1];
    }
    cuts[ranks] = group->offset + group->elements;
    for (uint32_t i = 0; i <= ranks; i++)
        partition->trained_cuts[g * (ranks + 1) + i] =
            trained_offset_of(partition->params, group, cuts[i]);
}

static void append(struct partition_arena *arena, uint64_t group, struct span span)
{
    arena->offsets[group] = arena->elements;
    arena->elements += span.elements;
}

static void update_max(uint64_t *max, struct span span)
{
    if (span.elements > *max)
        *max = span.elements;
}

static void lay_out_arenas(struct partition *partition)
{
    uint32_t rank = partition->options.rank;
    struct partition_arena *arenas[] = {&partition->shards, &partition->trained_shards,
                                        &partition->trained_parts};
    for (uint64_t g = 0; g < partition->params->groups_count; g++) {
        append(&partition->shards, g, partition_shard(partition, g, rank));
        append(&partition->trained_shards, g, partition_trained_shard(partition, g, rank));
        append(&partition->trained_parts, g, partition_trained_part(partition, g, rank));
        update_max(&partition->group_elements_max, partition_group(partition, g));
        update_max(&partition->trained_group_elements_max, partition_trained_group(partition, g));
        for (uint32_t r = 0; r < partition->options.ranks; r++)
            update_max(&partition->trained_part_elements_max,
                       partition_trained_part(partition, g, r));
    }
    /* a small model may leave this rank without elements */
    for (size_t i = 0; i < sizeof arenas / sizeof arenas[0]; i++)
        if (arenas[i]->elements == 0)
            arenas[i]->elements = PARAMS_ALIGN;
}

static int allocate(struct partition *partition, struct err *err)
{
    uint64_t groups = partition->params->groups_count,
             cuts = groups * (partition->options.ranks + 1);
    partition->cuts = calloc(cuts, sizeof *partition->cuts);
    partition->trained_cuts = calloc(cuts, sizeof *partition->trained_cuts);
    partition->shards.offsets = calloc(groups, sizeof *partition->shards.offsets);
    partition->trained_shards.offsets = calloc(groups, sizeof *partition->trained_shards.offsets);
    partition->trained_parts.offsets = calloc(groups, sizeof *partition->trained_parts.offsets);
    if (partition->cuts && partition->trained_cuts && partition->shards.offsets &&
        partition->trained_shards.offsets && partition->trained_parts.offsets)
        return 0;
    return err_set(err, -ENOMEM, "out of memory for the shards of %u ranks",
                   partition->options.ranks);
}

int partition_init(struct partition *partition, const struct partition_options *options,
                   const struct params *params, struct err *err)
{
    assert(options->ranks > 0 && options->rank < options->ranks && options->shards > 0);
    *partition = (struct partition){.options = *options, .params = params};
    if (options->ranks % options->shards != 0) {
        err_set(err, -EINVAL, "the number of shards does not divide the number of ranks");
        err_expected(err, "parallel.shard to be a divisor of %u", options->ranks);
        err_found(err, "%u", options->shards);
        return -EINVAL;
    }
    int status = allocate(partition, err);
    if (status) {
        partition_deinit(partition);
        return status;
    }
    for (uint64_t g = 0; g < params->groups_count; g++)
        cut_group(partition, g);
    lay_out_arenas(partition);
    return 0;
}

void partition_deinit(struct partition *partition)
{
    free(partition->cuts);
    free(partition->trained_cuts);
    free(partition->shards.offsets);
    free(partition->trained_shards.offsets);
    free(partition->trained_parts.offsets);
    *partition = (struct partition){0};
}

bool partition_is_whole(const struct partition *partition, uint64_t group)
{
    return partition->options.shards == 1 ||
           partition->params->groups[group].elements < partition->options.keep_below_elements;
}

static uint32_t shards_of(const struct partition *partition, uint64_t group)
{
    return partition_is_whole(partition, group) ? 1 : partition->options.shards;
}

uint32_t partition_replicas(const struct partition *partition, uint64_t group)
{
    return partition->options.ranks / shards_of(partition, group);
}

/* rank = replica * shards + shard: the ranks of a shard group are adjacent. part = shard * replicas
 * + replica: the parts of a shard are adjacent. */
static uint32_t part_index(const struct partition *partition, uint64_t group, uint32_t rank)
{
    uint32_t shards = shards_of(partition, group);
    return rank % shards * (partition->options.ranks / shards) + rank / shards;
}

static struct span cut_span(const struct partition *partition, const uint64_t *cuts, uint64_t group,
                            uint32_t first, uint32_t count)
{
    cuts += group * (partition->options.ranks + 1);
    return (struct span){cuts[first], cuts[first + count] - cuts[first]};
}

static struct span group_span(const struct partition *partition, const uint64_t *cuts,
                              uint64_t group)
{
    return cut_span(partition, cuts, group, 0, partition->options.ranks);
}

static struct span shard_span(const struct partition *partition, const uint64_t *cuts,
                              uint64_t group, uint32_t rank)
{
    uint32_t shards = shards_of(partition, group), replicas = partition->options.ranks / shards;
    return cut_span(partition, cuts, group, rank % shards * replicas, replicas);
}

static struct span part_span(const struct partition *partition, const uint64_t *cuts,
                             uint64_t group, uint32_t rank)
{
    return cut_span(partition, cuts, group, part_index(partition, group, rank), 1);
}

struct span partition_group(const struct partition *partition, uint64_t group)
{
    return group_span(partition, partition->cuts, group);
}

struct span partition_shard(const struct partition *partition, uint64_t group, uint32_t rank)
{
    return shard_span(partition, partition->cuts, group, rank);
}

struct span partition_part(const struct partition *partition, uint64_t group, uint32_t rank)
{
    return part_span(partition, partition->cuts, group, rank);
}

struct span partition_trained_group(const struct partition *partition, uint64_t group)
{
    return group_span(partition, partition->trained_cuts, group);
}

struct span partition_trained_shard(const struct partition *partition, uint64_t group,
                                    uint32_t rank)
{
    return shard_span(partition, partition->trained_cuts, group, rank);
}

struct span partition_trained_part(const struct partition *partition, uint64_t group, uint32_t rank)
{
    return part_span(partition, partition->trained_cuts, group, rank);
}

bool partition_is_same_shard(const struct partition *partition, uint64_t group, uint32_t rank,
                             uint32_t other_rank)
{
    uint32_t shards = shards_of(partition, group);
    return rank % shards == other_rank % shards;
}

bool partition_is_same_shard_group(const struct partition *partition, uint64_t group, uint32_t rank,
                                   uint32_t other_rank)
{
    uint32_t shards = shards_of(partition, group);
    return rank / shards == other_rank / shards;
}

char (*partition_labels(const struct partition *partition, const char *kind))[PARTITION_LABEL_BYTES]
{
    uint64_t count = partition->params->groups_count;
    char(*labels)[PARTITION_LABEL_BYTES] = calloc(count, sizeof *labels);
    for (uint64_t g = 0; labels && g < count; g++)
        snprintf(labels[g], sizeof labels[g], "%s of %s", kind, partition->params->groups[g].name);
    return labels;
}

struct row_range span_rows(const struct span *span, const struct param *param)
{
    uint64_t row = param_row_elements(param);
    uint64_t first = span->offset > param->offset ? span->offset : param->offset;
    uint64_t end = span->offset + span->elements, param_end = param->offset + param->count;
    if (end > param_end)
        end = param_end;
    if (first >= end)
        return (struct row_range){0, 0};
    assert((first - param->offset) % row == 0 && (end - param->offset) % row == 0);
    return (struct row_range){(first - param->offset) / row, (end - first) / row};
}
