/*
 * reduction — see reduction.h.
 */
#include "trainer/reduction.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_alone(const struct reduction_options *options)
{
    return options->batching.ranks == 1;
}

static bool exchanges_each(const struct reduction_options *options)
{
    return options->batching.interleaved && !is_alone(options);
}

static uint64_t micros_of(const struct reduction_options *options)
{
    return batching_micros(&options->batching);
}

/* The micro-batches of that rank, where they are neighbours. */
static void owned_range(const struct reduction_options *options, uint32_t rank, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    struct batching batching = options->batching;
    batching.rank = rank;
    *ret_first = batching_owned(&batching, 0);
    *ret_count = batching_owned_count(&batching);
}

static uint32_t pieces_of(const struct reduction_options *options, uint32_t rank,
                          uint64_t sizes[TREE_LEVELS_MAX])
{
    uint64_t first, count;
    sizes[0] = 1;
    if (options->batching.interleaved)
        return 1;
    owned_range(options, rank, &first, &count);
    return tree_subtrees(first, count, sizes);
}

/* What ranks give: most of one, and of all together. */
static void count_pieces(const struct reduction_options *options, uint32_t *ret_max, uint32_t *ret_total)
{
    uint64_t sizes[TREE_LEVELS_MAX];
    *ret_max = *ret_total = 0;
    for (uint32_t rank = 0; rank < options->batching.ranks; rank++) {
        uint32_t count = pieces_of(options, rank, sizes);
        *ret_total += count;
        if (count > *ret_max)
            *ret_max = count;
    }
}

static bool has_replicas(const struct partition *partition)
{
    for (uint64_t g = 0; g < partition->params->groups_count; g++)
        if (partition_replicas(partition, g) > 1)
            return true;
    return false;
}

static uint64_t chunk_elements(const struct reduction_options *options)
{
    uint64_t most = bytes_round_up(options->partition->trained_part_elements_max, PARAMS_ALIGN);
    uint64_t wanted = options->bucket_bytes / ops_master_bytes(options->ops) / options->batching.ranks /
                      PARAMS_ALIGN * PARAMS_ALIGN;
    if (wanted < PARAMS_ALIGN)
        wanted = PARAMS_ALIGN;
    return wanted < most || most == 0 ? wanted : most;
}

/* comm, received and context are the caller's to set. */
static struct exchange_options exchange_options_of(const struct reduction_options *options)
{
    struct exchange_options exchange = {.comm = options->comm,
                                        .ops = options->ops,
                                        .partition = options->partition,
                                        .chunk_elements = chunk_elements(options),
                                        .timeout_ns = options->timeout_ns};
    count_pieces(options, &exchange.pieces_max, &exchange.pieces_total_max);
    return exchange;
}

static struct gather_options gather_options_of(const struct reduction_options *options)
{
    return (struct gather_options){.comm = options->comm,
                                   .ops = options->ops,
                                   .stream = options->ops->stream,
                                   .partition = options->partition,
                                   .timeout_ns = options->timeout_ns,
                                   .what = "gradients",
                                   .in_turn = options->in_turn};
}

uint32_t reduction_buffers(const struct reduction_options *options)
{
    uint64_t first, count;
    owned_range(options, options->batching.rank, &first, &count);
    return exchanges_each(options) ? 0 : tree_buffers(first, count);
}

struct reduction_need reduction_need_of(const struct reduction_options *options)
{
    const struct partition *partition = options->partition;
    size_t element_bytes = ops_master_bytes(options->ops);
    struct reduction_need need = {0};
    uint64_t elements = reduction_buffers(options) * partition->params->trained_elements;
    if (exchanges_each(options))
        elements = REDUCTION_LEAVES * partition->trained_group_elements_max;
    if (!is_alone(options)) {
        const struct exchange_options exchange = exchange_options_of(options);
        const struct gather_options gather = gather_options_of(options);
        elements += tree_buffers(0, micros_of(options)) * partition->trained_parts.elements;
        if (exchanges_each(options) && has_replicas(partition))
            elements += partition->trained_shards.elements;
        need.pinned_bytes = exchange_bytes(&exchange) + (has_replicas(partition) ? gather_bytes(&gather) : 0);
    }
    need.device_bytes = elements * element_bytes;
    return need;
}

static void *at(const struct reduction *reduction, void *arena, uint64_t element)
{
    return (char *)arena + element * ops_master_bytes(reduction->options.ops);
}

/* Where the gradients of what this rank holds of the group are put together. */
static void *shard_place(const struct reduction *reduction, uint64_t group)
{
    const struct partition *partition = reduction->options.partition;
    if (reduction->shards)
        return at(reduction, reduction->shards, partition->trained_shards.offsets[group]);
    /* its leaves have been sent */
    return at(reduction, reduction->local.buffers[0],
              partition_trained_shard(partition, group, partition->options.rank).offset);
}

/* This rank's part of the group is summed: others that hold the same want it too. */
static int end_group(struct reduction *reduction, uint64_t group, struct err *err)
{
    struct ops *ops = reduction->options.ops;
    const struct partition *partition = reduction->options.partition;
    const void *sum = tree_finish(&reduction->group_parts[group]);
    struct span part = partition_trained_part(partition, group, partition->options.rank);
    struct span shard = partition_trained_shard(partition, group, partition->options.rank);
    int status = 0;
    if (partition_replicas(partition, group) == 1)
        return 0;
    char *place = shard_place(reduction, group);
    if (part.elements > 0)
        status =
            ops->device->ops->copy(ops->device, ops->stream, at(reduction, place, part.offset - shard.offset),
                                   sum, part.elements * ops_master_bytes(ops), err);
    return status ? status
                  : gather_begin(reduction->gather, group, GATHER_PARTS, place, ops_master_bytes(ops), err);
}

static int receive(void *context, const struct exchange_chunk *chunk, struct err *err)
{
    struct reduction *reduction = context;
    struct tree *whole = &reduction->group_parts[chunk->group];
    uint64_t first = chunk->elements > 0 ? chunk->first : 0;
    struct tree part = tree_part(whole, first, chunk->elements);
    int status = 0;
    for (uint32_t i = 0; i < chunk->sources_count && !status; i++)
        status = tree_push_from(&part, chunk->sources[i], reduction->sizes[i], err);
    if (status || !chunk->is_last)
        return status;
    whole->depth = part.depth;
    whole->next = part.next;
    memcpy(whole->sizes, part.sizes, sizeof whole->sizes);
    return whole->next == micros_of(&reduction->options) ? end_group(reduction, chunk->group, err) : 0;
}

static int list_pieces(struct reduction *reduction, struct err *err)
{
    const struct reduction_options *options = &reduction->options;
    uint32_t ranks = options->batching.ranks, pieces_max, total;
    count_pieces(options, &pieces_max, &total);
    reduction->sizes = calloc(total, sizeof *reduction->sizes);
    reduction->counts = calloc(ranks, sizeof *reduction->counts);
    reduction->last_counts = calloc(ranks, sizeof *reduction->last_counts);
    if (!reduction->sizes || !reduction->counts || !reduction->last_counts)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    uint64_t at_piece = 0, last = (micros_of(options) - 1) % ranks; /* who computes the last micro-batch */
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t sizes[TREE_LEVELS_MAX];
        uint32_t count = pieces_of(options, rank, sizes);
        memcpy(reduction->sizes + at_piece, sizes, count * sizeof sizes[0]);
        at_piece += count;
        reduction->counts[rank] = count;
        reduction->last_counts[rank] = options->batching.interleaved && rank > last ? 0 : count;
    }
    return 0;
}

static int open_parts(struct reduction *reduction, struct err *err)
{
    const struct reduction_options *options = &reduction->options;
    const struct partition *partition = options->partition;
    uint64_t groups_count = partition->params->groups_count;
    int status = tree_init(&reduction->parts, options->ops, partition->trained_parts.elements, 0,
                           micros_of(options), err);
    if (status)
        return status;
    reduction->group_parts = calloc(groups_count, sizeof *reduction->group_parts);
    reduction->group_gradients = calloc(groups_count, sizeof *reduction->group_gradients);
    if (!reduction->group_parts || !reduction->group_gradients)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    for (uint64_t g = 0; g < groups_count; g++)
        reduction->group_parts[g] =
            tree_part(&reduction->parts, partition->trained_parts.offsets[g],
                      partition_trained_part(partition, g, partition->options.rank).elements);
    return list_pieces(reduction, err);
}

static int open_leaves(struct reduction *reduction, struct err *err)
{
    const struct reduction_options *options = &reduction->options;
    struct device *device = options->ops->device;
    size_t element_bytes = ops_master_bytes(options->ops);
    int status = 0;
    for (int i = 0; i < REDUCTION_LEAVES && !status; i++)
        status = device->ops->mem_alloc(device, MEM_DEVICE,
                                        options->partition->trained_group_elements_max * element_bytes,
                                        &reduction->leaves[i].memory, err);
    if (!status && has_replicas(options->partition))
        status = device->ops->mem_alloc(device, MEM_DEVICE,
                                        options->partition->trained_shards.elements * element_bytes,
                                        &reduction->shards, err);
    return status;
}

int reduction_connect(struct reduction *reduction, struct err *err)
{
    struct comm *world = reduction->options.comm;
    if (is_alone(&reduction->options))
        return 0;
    int status = world->ops->split(world, 0, world->rank, &reduction->exchange_comm, err);
    if (!status && has_replicas(reduction->options.partition))
        status = world->ops->split(world, 0, world->rank, &reduction->gather_comm, err);
    return status;
}

int reduction_open_exchange(struct reduction *reduction, struct err *err)
{
    struct exchange_options exchange = exchange_options_of(&reduction->options);
    struct gather_options gather = gather_options_of(&reduction->options);
    if (is_alone(&reduction->options))
        return 0;
    exchange.comm = reduction->exchange_comm;
    exchange.received = receive;
    exchange.context = reduction;
    gather.comm = reduction->gather_comm;
    int status = exchange_open(&exchange, &reduction->exchange, err);
    return status || !gather.comm ? status : gather_open(&gather, &reduction->gather, err);
}

int reduction_open(struct reduction *reduction, const struct reduction_options *options, struct err *err)
{
    uint64_t first, count;
    *reduction = (struct reduction){.options = *options};
    owned_range(options, options->batching.rank, &first, &count);
    int status = exchanges_each(options)
                     ? open_leaves(reduction, err)
                     : tree_init(&reduction->local, options->ops,
                                 options->partition->params->trained_elements, first, count, err);
    if (!status && !is_alone(options))
        status = open_parts(reduction, err);
    if (status)
        reduction_close(reduction);
    return status;
}

static void release(struct reduction *reduction, void *memory, uint64_t elements, bool is_idle)
{
    struct ops *ops = reduction->options.ops;
    if (is_idle)
        ops->device->ops->mem_free(ops->device, MEM_DEVICE, memory, elements * ops_master_bytes(ops));
    else
        comm_retain(memory);
}

void reduction_close(struct reduction *reduction)
{
    if (!reduction->options.ops)
        return;
    const struct partition *partition = reduction->options.partition;
    bool is_idle = exchange_is_idle(reduction->exchange) && gather_is_idle(reduction->gather);
    exchange_close(reduction->exchange);
    gather_close(reduction->gather);
    comm_close(reduction->exchange_comm);
    comm_close(reduction->gather_comm);
    for (int i = 0; i < REDUCTION_LEAVES; i++)
        release(reduction, reduction->leaves[i].memory, partition->trained_group_elements_max, is_idle);
    release(reduction, reduction->shards, partition->trained_shards.elements, is_idle);
    if (!is_idle)
        tree_retain(&reduction->local);
    else if (reduction->local.ops)
        tree_deinit(&reduction->local);
    if (reduction->parts.ops)
        tree_deinit(&reduction->parts);
    free(reduction->group_parts);
    free(reduction->group_gradients);
    free(reduction->sizes);
    free(reduction->counts);
    free(reduction->last_counts);
    *reduction = (struct reduction){0};
}

uint64_t reduction_rounds(const struct reduction *reduction)
{
    const struct reduction_options *options = &reduction->options;
    uint64_t ranks = options->batching.ranks;
    if (exchanges_each(options))
        return (micros_of(options) + ranks - 1) / ranks;
    return batching_owned_count(
        &options->batching); /* ranks exchange in their last round, whichever that is */
}

bool reduction_computes(const struct reduction *reduction, uint64_t round)
{
    return round < batching_owned_count(&reduction->options.batching);
}

bool reduction_is_plain(const struct reduction *reduction, uint64_t round)
{
    const struct reduction_options *options = &reduction->options;
    return is_alone(options) || (!exchanges_each(options) && round + 1 < reduction_rounds(reduction));
}

void reduction_begin(struct reduction *reduction)
{
    if (!exchanges_each(&reduction->options))
        tree_reset(&reduction->local);
    for (uint64_t g = 0; reduction->group_parts && g < reduction->options.partition->params->groups_count;
         g++)
        tree_reset(&reduction->group_parts[g]);
}

void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory)
{
    reduction->round = round;
    memory->gradients = NULL;
    memory->group_gradients = reduction->group_gradients;
    if (!exchanges_each(&reduction->options))
        memory->gradients = tree_leaf(&reduction->local);
}

static void note_failure(struct reduction *reduction, int status, const struct err *err)
{
    if (!status || reduction->status)
        return;
    reduction->status = status;
    reduction->err = *err;
}

/* Between the tensors of a group, and behind them, is padding that is zero in every arena. */
static int zero_padding(struct reduction *reduction, uint64_t group, void *leaf, struct err *err)
{
    struct device *device = reduction->options.ops->device;
    const struct params *params = reduction->options.partition->params;
    const struct param_group *g = &params->groups[group];
    size_t element_bytes = ops_master_bytes(reduction->options.ops);
    uint64_t place = 0; /* behind the last tensor */
    int status = 0;
    for (uint64_t i = 0; i <= g->count && !status; i++) {
        const struct param *param = i < g->count ? &params->list[g->first + i] : NULL;
        if (param && param->frozen)
            continue;
        uint64_t next = param ? param->trained_offset - g->trained_offset : g->trained_elements;
        if (next > place)
            status = device->ops->fill(device, reduction->options.ops->stream, at(reduction, leaf, place), 0,
                                       (next - place) * element_bytes, err);
        place = param ? next + param->count : next;
    }
    return status;
}

static bool is_trained(const struct reduction *reduction, uint64_t group)
{
    return reduction->options.partition->params->groups[group].trained_elements > 0;
}

/* The one that was taken longest ago, once nothing of it is being sent any more. */
static int take_leaf(struct reduction *reduction, uint64_t group, struct err *err)
{
    struct reduction_leaf *leaf = NULL;
    for (int i = 0; i < REDUCTION_LEAVES; i++) {
        struct reduction_leaf *other = &reduction->leaves[i];
        if (!other->is_taken && (!leaf || other->turn < leaf->turn))
            leaf = other;
    }
    assert(leaf); /* at most two groups are written at a time: a tied one and another */
    int status = leaf->turn > 0 ? exchange_wait_group(reduction->exchange, leaf->group, err) : 0;
    leaf->is_taken = true;
    leaf->group = group;
    leaf->turn = ++reduction->turns;
    reduction->group_gradients[group] = leaf->memory;
    return status ? status : zero_padding(reduction, group, leaf->memory, err);
}

void reduction_need(struct reduction *reduction, uint64_t group)
{
    struct err err = {0};
    /* a rank that computes nothing in this round waits where the others do, so that no rank runs away from what it still has to receive */
    if (is_trained(reduction, group) && exchanges_each(&reduction->options))
        note_failure(reduction, take_leaf(reduction, group, &err), &err);
}

static const uint32_t *counts_of(const struct reduction *reduction)
{
    return reduction->round + 1 == reduction_rounds(reduction) ? reduction->last_counts : reduction->counts;
}

static void give_leaf(struct reduction *reduction, uint64_t group, struct exchange_pieces *pieces)
{
    for (int i = 0; i < REDUCTION_LEAVES; i++)
        if (reduction->leaves[i].is_taken && reduction->leaves[i].group == group) {
            reduction->leaves[i].is_taken = false;
            pieces->sources[0] = reduction->leaves[i].memory;
        }
}

/* The subtrees that this rank's leaves make up, of one group. */
static void push_last_leaf(struct reduction *reduction, uint64_t group, struct exchange_pieces *pieces)
{
    const struct param_group *g = &reduction->options.partition->params->groups[group];
    struct tree part = tree_part(&reduction->local, g->trained_offset, g->trained_elements);
    tree_push(&part);
    for (uint32_t i = 0; i < part.depth; i++)
        pieces->sources[i] = part.buffers[i];
}

void reduction_done(struct reduction *reduction, uint64_t group)
{
    struct exchange_pieces pieces = {.counts = counts_of(reduction)};
    struct err err = {0};
    if (!is_trained(reduction, group) || reduction_is_plain(reduction, reduction->round))
        return;
    if (exchanges_each(&reduction->options))
        give_leaf(reduction, group, &pieces);
    else
        push_last_leaf(reduction, group, &pieces);
    if (!reduction->status)
        note_failure(reduction, exchange_begin(reduction->exchange, group, &pieces, &err), &err);
    if (!reduction->status && reduction->options.in_turn)
        note_failure(reduction, exchange_drain(reduction->exchange, &err), &err);
}

int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err)
{
    if (reduction_is_plain(reduction, round))
        tree_push(&reduction->local);
    if (reduction->status && err)
        *err = reduction->err;
    return reduction->status;
}

int reduction_finish(struct reduction *reduction, struct err *err)
{
    if (!is_alone(&reduction->options))
        return exchange_drain(reduction->exchange, err);
    tree_finish(&reduction->local);
    return 0;
}

const void *reduction_part(const struct reduction *reduction, uint64_t group)
{
    if (is_alone(&reduction->options))
        return at(reduction, reduction->local.buffers[0],
                  reduction->options.partition->params->groups[group].trained_offset);
    return reduction->group_parts[group].buffers[0];
}

int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients, struct err *err)
{
    bool is_gathered =
        !is_alone(&reduction->options) && partition_replicas(reduction->options.partition, group) > 1;
    *ret_gradients = is_gathered ? shard_place(reduction, group) : reduction_part(reduction, group);
    return is_gathered ? gather_wait(reduction->gather, group, err) : 0;
}

uint64_t reduction_waited_ns(const struct reduction *reduction)
{
    return exchange_waited_ns(reduction->exchange) + gather_waited_ns(reduction->gather);
}
