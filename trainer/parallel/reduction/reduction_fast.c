/*
 * reduction_fast — the fastest method, with the least memory; its result depends on the number of
 * ranks.
 *
 * - If gradients are exchanged once per step: passes add to one buffer. A reduce-scatter
 *   (bucket_exchange.h) replaces each rank's part with its sum.
 * - If they are exchanged after each micro-batch: the sums of successive rounds are added to this
 *   rank's parts.
 */
#include "trainer/parallel/reduction/gradient_sync.h"
#include "trainer/parallel/reduction/reduction.h"

#include <errno.h>
#include <stdlib.h>

/* Owner thread. */
struct fast {
    struct reduction base;
    struct gradient_sync sync; /* unused with one rank, like counts */
    uint32_t *counts;          /* [ranks]: 1 piece per rank */
    uint64_t *rounds;          /* [groups_count]: rounds received in this step */
    void *parts; /* sums of this rank's parts; NULL unless micro-batches are exchanged */
};

static struct fast *fast_of(struct reduction *reduction)
{
    return (struct fast *)reduction;
}

static int receive(void *context, const struct bucket_exchange_chunk *chunk, struct err *err);

static struct gradient_sync_options
gradient_sync_options_of(const struct reduction_options *options, void *context)
{
    return (struct gradient_sync_options){.reduction = *options,
                                          .pieces_max = 1,
                                          .pieces_total_max = options->batching.ranks,
                                          .sums = true,
                                          .on_received = receive,
                                          .context = context};
}

static uint64_t own_part_elements(const struct reduction_options *options)
{
    return reduction_exchanges_each_micro_batch(options)
               ? options->partition->trained_parts.elements
               : options->partition->params->trained_elements;
}

static uint32_t buffers(const struct reduction_options *options)
{
    return !reduction_exchanges_each_micro_batch(options);
}

static void *part_address(const struct fast *fast, uint64_t group)
{
    const struct reduction_options *options = &fast->base.options;
    const struct partition *partition = options->partition;
    uint64_t element =
        fast->parts ? partition->trained_parts.offsets[group]
                    : partition_trained_part(partition, group, partition->options.rank).offset;
    return (char *)(fast->parts ? fast->parts : fast->base.arena) +
           element * ops_master_bytes(options->ops);
}

static int receive(void *context, const struct bucket_exchange_chunk *chunk, struct err *err)
{
    struct fast *fast = context;
    struct ops *ops = fast->base.options.ops;
    size_t element_bytes = ops_master_bytes(ops);
    char *place = part_address(fast, chunk->group);
    int status = 0;
    for (uint32_t i = 0; i < chunk->sources_count && chunk->elements > 0 && !status; i++) {
        char *sum = place + chunk->first * element_bytes;
        if (i > 0 || fast->rounds[chunk->group] > 0)
            ops->table->tree_add(ops, sum, chunk->sources[i], chunk->elements);
        else
            status = ops->device->ops->copy(ops->device, ops->stream, sum, chunk->sources[i],
                                            chunk->elements * element_bytes, err);
    }
    if (status || !chunk->is_last)
        return status;
    bool is_whole =
        fast->parts ? ++fast->rounds[chunk->group] == reduction_rounds(&fast->base) : true;
    return is_whole ? gradient_sync_share(&fast->sync, chunk->group, place, fast->base.arena, err)
                    : 0;
}

static int open_sync(struct fast *fast, const struct reduction_options *options, struct err *err)
{
    fast->counts = calloc(options->batching.ranks, sizeof *fast->counts);
    fast->rounds = calloc(options->partition->params->groups_count, sizeof *fast->rounds);
    if (!fast->counts || !fast->rounds)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    for (uint32_t rank = 0; rank < options->batching.ranks; rank++)
        fast->counts[rank] = 1;
    const struct gradient_sync_options sync = gradient_sync_options_of(options, fast);
    fast->base.sync = &fast->sync;
    return gradient_sync_open(&fast->sync, &sync, err);
}

static void fast_close(struct reduction *reduction)
{
    struct fast *fast = fast_of(reduction);
    struct ops *ops = reduction->options.ops;
    bool is_idle = gradient_sync_is_idle(&fast->sync);
    gradient_sync_close(&fast->sync);
    size_t bytes = own_part_elements(&reduction->options) * ops_master_bytes(ops);
    if (is_idle)
        ops->device->ops->mem_free(ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                   fast->base.arena, bytes);
    else
        comm_retain(fast->base.arena);
    ops->device->ops->mem_free(ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS), fast->parts,
                               bytes);
    free(fast->counts);
    free(fast->rounds);
    free(fast);
}

static int fast_open(const struct reduction_options *options, struct reduction **ret_reduction,
                     struct err *err)
{
    struct device *device = options->ops->device;
    struct fast *fast = calloc(1, sizeof *fast);
    if (!fast)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    fast->base.options = *options;
    int status = device->ops->mem_alloc(
        device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
        own_part_elements(options) * ops_master_bytes(options->ops),
        reduction_exchanges_each_micro_batch(options) ? &fast->parts : &fast->base.arena, err);
    if (!status && !reduction_is_local(options))
        status = open_sync(fast, options, err);
    if (status) {
        fast_close(&fast->base);
        return status;
    }
    *ret_reduction = &fast->base;
    return 0;
}

static int begin(struct reduction *reduction, uint64_t step, struct err *err)
{
    struct fast *fast = fast_of(reduction);
    struct ops *ops = reduction->options.ops;
    (void)step;
    for (uint64_t g = 0; fast->rounds && g < reduction->options.partition->params->groups_count;
         g++)
        fast->rounds[g] = 0;
    if (!fast->base.arena)
        return 0;
    return ops->device->ops->fill(ops->device, ops->stream, fast->base.arena, 0,
                                  own_part_elements(&reduction->options) * ops_master_bytes(ops),
                                  err);
}

/* A rank without a micro-batch in this round contributes zeros. */
static int acquire_group(struct reduction *reduction, uint64_t group, struct err *err)
{
    struct ops *ops = reduction->options.ops;
    void **gradients = &reduction->group_gradients[group];
    if (!reduction_exchanges_each_micro_batch(&reduction->options))
        return 0;
    int status = gradient_leaves_acquire(&fast_of(reduction)->sync.leaves, group, gradients, err);
    if (status || reduction_has_micro_batch(reduction, reduction->round))
        return status;
    uint64_t elements = partition_trained_group(reduction->options.partition, group).elements;
    return ops->device->ops->fill(ops->device, ops->stream, *gradients, 0,
                                  elements * ops_master_bytes(ops), err);
}

static int release_group(struct reduction *reduction, uint64_t group, struct err *err)
{
    struct fast *fast = fast_of(reduction);
    uint64_t first = partition_trained_group(reduction->options.partition, group).offset;
    struct bucket_exchange_pieces pieces = {.counts = fast->counts};
    if (fast->base.arena)
        pieces.sources[0] =
            (char *)fast->base.arena + first * ops_master_bytes(reduction->options.ops);
    else
        pieces.sources[0] = gradient_leaves_release(&fast->sync.leaves, group);
    return reduction->status ? 0 : gradient_sync_send(&fast->sync, group, &pieces, err);
}

static int finish(struct reduction *reduction, struct err *err)
{
    return reduction->sync ? gradient_sync_finish(reduction->sync, err) : 0;
}

static const void *part(const struct reduction *reduction, uint64_t group)
{
    return part_address((const struct fast *)reduction, group);
}

const struct reduction_ops reduction_fast_ops = {
    .name = "fast",
    .buffers_count = buffers,
    .accumulates = true,
    .open = fast_open,
    .close = fast_close,
    .begin = begin,
    .acquire_group = acquire_group,
    .release_group = release_group,
    .finish = finish,
    .get_part = part,
};
