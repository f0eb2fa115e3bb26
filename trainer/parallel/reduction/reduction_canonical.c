/*
 * reduction_canonical — sums micro-batches in a fixed tree (tree.h): the same bits for any number
 * of ranks.
 *
 * Each rank sums its part of each group (partition.h): it pushes the pieces of all ranks in
 * micro-batch order. The pieces are
 *
 * - if gradients are exchanged once per step: the largest subtrees that a rank's micro-batches
 *   form;
 * - if they are exchanged after each micro-batch: leaves, taken from the ranks in turn.
 */
#include "trainer/parallel/reduction/gradient_sync.h"
#include "trainer/parallel/reduction/reduction.h"
#include "trainer/parallel/reduction/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Owner thread. */
struct canonical {
    struct reduction base;
    struct gradient_sync sync; /* unused with one rank, like all fields below except local_tree */
    struct tree local_tree;    /* this rank's leaves; unused if micro-batches are exchanged */
    struct tree parts_tree;
    struct tree *group_trees;    /* [groups_count]: views of parts_tree */
    uint64_t *piece_sizes;       /* number of leaves in each piece, all ranks in order */
    uint32_t *piece_counts;      /* [ranks]: pieces per rank */
    uint32_t *last_round_counts; /* [ranks]: pieces per rank in the last round */
};

static struct canonical *canonical_of(struct reduction *reduction)
{
    return (struct canonical *)reduction;
}

/* The rank's micro-batches, which must be consecutive. */
static void owned_range(const struct reduction_options *options, uint32_t rank, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    struct batching batching = options->batching;
    batching.rank = rank;
    *ret_first = batching_owned_micro(&batching, 0);
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
    return tree_count_subtrees(first, count, sizes);
}

static int receive(void *context, const struct bucket_exchange_chunk *chunk, struct err *err);

static struct gradient_sync_options
gradient_sync_options_of(const struct reduction_options *options, void *context)
{
    uint64_t sizes[TREE_LEVELS_MAX];
    struct gradient_sync_options sync = {
        .reduction = *options, .on_received = receive, .context = context};
    for (uint32_t rank = 0; rank < options->batching.ranks; rank++) {
        uint32_t count = pieces_of(options, rank, sizes);
        sync.pieces_total_max += count;
        if (count > sync.pieces_max)
            sync.pieces_max = count;
    }
    return sync;
}

static uint32_t buffers(const struct reduction_options *options)
{
    uint64_t first, count;
    owned_range(options, options->batching.rank, &first, &count);
    return reduction_exchanges_each_micro_batch(options) ? 0 : tree_buffers_count(first, count);
}

static int receive(void *context, const struct bucket_exchange_chunk *chunk, struct err *err)
{
    struct canonical *canonical = context;
    struct tree *whole = &canonical->group_trees[chunk->group];
    uint64_t first = chunk->elements > 0 ? chunk->first : 0;
    struct tree part = tree_part(whole, first, chunk->elements);
    int status = 0;
    for (uint32_t i = 0; i < chunk->sources_count && !status; i++)
        status = tree_push_from(&part, chunk->sources[i], canonical->piece_sizes[i], err);
    if (status || !chunk->is_last)
        return status;
    whole->depth = part.depth;
    whole->next = part.next;
    memcpy(whole->sizes, part.sizes, sizeof whole->sizes);
    if (whole->next < batching_micros(&canonical->base.options.batching))
        return 0;
    return gradient_sync_share(&canonical->sync, chunk->group, tree_finish(whole),
                               canonical->base.arena, err);
}

static int list_pieces(struct canonical *canonical, const struct reduction_options *options,
                       struct err *err)
{
    uint32_t ranks = options->batching.ranks;
    canonical->piece_sizes =
        calloc(canonical->sync.options.pieces_total_max, sizeof *canonical->piece_sizes);
    canonical->piece_counts = calloc(ranks, sizeof *canonical->piece_counts);
    canonical->last_round_counts = calloc(ranks, sizeof *canonical->last_round_counts);
    if (!canonical->piece_sizes || !canonical->piece_counts || !canonical->last_round_counts)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    uint64_t pieces_total = 0;
    uint64_t last =
        (batching_micros(&options->batching) - 1) % ranks; /* has the last micro-batch */
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t sizes[TREE_LEVELS_MAX];
        uint32_t count = pieces_of(options, rank, sizes);
        memcpy(canonical->piece_sizes + pieces_total, sizes, count * sizeof sizes[0]);
        pieces_total += count;
        canonical->piece_counts[rank] = count;
        canonical->last_round_counts[rank] =
            options->batching.interleaved && rank > last ? 0 : count;
    }
    return 0;
}

static int open_parts(struct canonical *canonical, const struct reduction_options *options,
                      struct err *err)
{
    const struct partition *partition = options->partition;
    uint64_t groups_count = partition->params->groups_count;
    int status = tree_init(&canonical->parts_tree, options->ops, partition->trained_parts.elements,
                           0, batching_micros(&options->batching), err);
    if (status)
        return status;
    canonical->group_trees = calloc(groups_count, sizeof *canonical->group_trees);
    if (!canonical->group_trees)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    for (uint64_t g = 0; g < groups_count; g++)
        canonical->group_trees[g] =
            tree_part(&canonical->parts_tree, partition->trained_parts.offsets[g],
                      partition_trained_part(partition, g, partition->options.rank).elements);
    const struct gradient_sync_options sync = gradient_sync_options_of(options, canonical);
    canonical->base.sync = &canonical->sync;
    status = gradient_sync_open(&canonical->sync, &sync, err);
    return status ? status : list_pieces(canonical, options, err);
}

static void canonical_close(struct reduction *reduction)
{
    struct canonical *canonical = canonical_of(reduction);
    bool is_idle = gradient_sync_is_idle(&canonical->sync);
    gradient_sync_close(&canonical->sync);
    if (!is_idle)
        tree_retain(&canonical->local_tree);
    else if (canonical->local_tree.ops)
        tree_deinit(&canonical->local_tree);
    if (canonical->parts_tree.ops)
        tree_deinit(&canonical->parts_tree);
    free(canonical->group_trees);
    free(canonical->piece_sizes);
    free(canonical->piece_counts);
    free(canonical->last_round_counts);
    free(canonical);
}

static int canonical_open(const struct reduction_options *options, struct reduction **ret_reduction,
                          struct err *err)
{
    uint64_t first, count;
    struct canonical *canonical = calloc(1, sizeof *canonical);
    if (!canonical)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    owned_range(options, options->batching.rank, &first, &count);
    int status = 0;
    if (!reduction_exchanges_each_micro_batch(options))
        status = tree_init(&canonical->local_tree, options->ops,
                           options->partition->params->trained_elements, first, count, err);
    canonical->base.arena = canonical->local_tree.buffers[0];
    if (!status && !reduction_is_local(options))
        status = open_parts(canonical, options, err);
    if (status) {
        canonical_close(&canonical->base);
        return status;
    }
    *ret_reduction = &canonical->base;
    return 0;
}

static int begin(struct reduction *reduction, uint64_t step, struct err *err)
{
    struct canonical *canonical = canonical_of(reduction);
    (void)step, (void)err;
    if (canonical->local_tree.ops)
        tree_reset(&canonical->local_tree);
    for (uint64_t g = 0;
         canonical->group_trees && g < reduction->options.partition->params->groups_count; g++)
        tree_reset(&canonical->group_trees[g]);
    return 0;
}

static void *leaf(struct reduction *reduction)
{
    struct canonical *canonical = canonical_of(reduction);
    reduction->buffer = canonical->local_tree.depth;
    return canonical->local_tree.ops ? tree_leaf(&canonical->local_tree) : NULL;
}

static void end_leaf(struct reduction *reduction)
{
    tree_push(&canonical_of(reduction)->local_tree);
}

static int acquire_group(struct reduction *reduction, uint64_t group, struct err *err)
{
    if (!reduction_exchanges_each_micro_batch(&reduction->options))
        return 0;
    return gradient_leaves_acquire(&canonical_of(reduction)->sync.leaves, group,
                                   &reduction->group_gradients[group], err);
}

/* Sets pieces to a group's subtrees, including the last leaf. */
static void push_last_leaf(struct canonical *canonical, uint64_t group,
                           struct bucket_exchange_pieces *pieces)
{
    const struct param_group *g = &canonical->base.options.partition->params->groups[group];
    struct tree part = tree_part(&canonical->local_tree, g->trained_offset, g->trained_elements);
    tree_push(&part);
    for (uint32_t i = 0; i < part.depth; i++)
        pieces->sources[i] = part.buffers[i];
}

static int release_group(struct reduction *reduction, uint64_t group, struct err *err)
{
    struct canonical *canonical = canonical_of(reduction);
    bool is_last = reduction->round + 1 == reduction_rounds(reduction);
    struct bucket_exchange_pieces pieces = {.counts = is_last ? canonical->last_round_counts
                                                              : canonical->piece_counts};
    if (reduction_exchanges_each_micro_batch(&reduction->options))
        pieces.sources[0] = gradient_leaves_release(&canonical->sync.leaves, group);
    else
        push_last_leaf(canonical, group, &pieces);
    return reduction->status ? 0 : gradient_sync_send(&canonical->sync, group, &pieces, err);
}

static int finish(struct reduction *reduction, struct err *err)
{
    if (reduction->sync)
        return gradient_sync_finish(reduction->sync, err);
    tree_finish(&canonical_of(reduction)->local_tree);
    return 0;
}

static const void *part(const struct reduction *reduction, uint64_t group)
{
    const struct canonical *canonical = (const struct canonical *)reduction;
    const struct reduction_options *options = &reduction->options;
    if (!reduction_is_local(options))
        return canonical->group_trees[group].buffers[0];
    return (const char *)reduction->arena +
           options->partition->params->groups[group].trained_offset *
               ops_master_bytes(options->ops);
}

const struct reduction_ops reduction_canonical_ops = {
    .name = "canonical",
    .buffers_count = buffers,
    .open = canonical_open,
    .close = canonical_close,
    .begin = begin,
    .get_leaf = leaf,
    .end_leaf = end_leaf,
    .acquire_group = acquire_group,
    .release_group = release_group,
    .finish = finish,
    .get_part = part,
};
