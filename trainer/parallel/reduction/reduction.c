/*
 * reduction — see reduction.h.
 */
#include "trainer/parallel/reduction/reduction.h"

#include "trainer/parallel/reduction/gradient_sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct reduction_ops *method_of(const struct reduction_options *options)
{
    static const struct reduction_ops *const methods[] = {
        [REDUCTION_CANONICAL] = &reduction_canonical_ops,
        [REDUCTION_FAST] = &reduction_fast_ops,
        [REDUCTION_POWERSGD] = &reduction_powersgd_ops};
    return methods[options->kind];
}

uint32_t reduction_buffers_count(const struct reduction_options *options)
{
    return method_of(options)->buffers_count(options);
}

void reduction_describe_rank_dependence(const struct reduction_options *options, char *text,
                                        size_t bytes)
{
    const struct bucket_exchange_wire *wire = &options->wire;
    bool rounds =
        !reduction_is_local(options) && (wire->type == DTYPE_BF16 || wire->type == DTYPE_F16);
    text[0] = '\0';
    if (options->is_local) {
        snprintf(text, bytes, "local updates of %u ranks", options->batching.ranks);
        return;
    }
    if (options->kind != REDUCTION_CANONICAL || rounds)
        snprintf(text, bytes, "reduction %s%s%s on %u rank%s%s", method_of(options)->name,
                 rounds ? " in " : "", rounds ? dtype_name(wire->type) : "",
                 options->batching.ranks, reduction_is_local(options) ? "" : "s",
                 reduction_exchanges_each_micro_batch(options)
                     ? ", each micro-batch's gradients in turn"
                     : "");
}

/* The number of ranks that used this method before the checkpoint; 0: a different method was
 * used. */
static unsigned rank_count_from_numerics_id(const struct reduction *reduction,
                                            const char *numerics_id)
{
    char prefix[REDUCTION_DEPENDENCE_BYTES];
    unsigned ranks = 0;
    snprintf(prefix, sizeof prefix, "reduction %s on ", reduction->ops->name);
    const char *found = strstr(numerics_id, prefix);
    return found && sscanf(found + strlen(prefix), "%u", &ranks) == 1 ? ranks : 0;
}

const char *reduction_resume_warning(const struct reduction *reduction, const char *numerics_id,
                                     uint64_t step)
{
    bool had_ranks = !reduction_is_local(&reduction->options) &&
                     rank_count_from_numerics_id(reduction, numerics_id) > 1;
    return had_ranks && reduction->ops->resume_warning
               ? reduction->ops->resume_warning(reduction, step)
               : NULL;
}

bool reduction_accumulates(const struct reduction_options *options)
{
    return method_of(options)->accumulates && !reduction_exchanges_each_micro_batch(options);
}

int reduction_open(const struct reduction_options *options, struct reduction **ret_reduction,
                   struct err *err)
{
    void **group_gradients =
        calloc(options->partition->params->groups_count, sizeof *group_gradients);
    if (!group_gradients)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    int status = method_of(options)->open(options, ret_reduction, err);
    if (status) {
        free(group_gradients);
        return status;
    }
    (*ret_reduction)->ops = method_of(options);
    (*ret_reduction)->options = *options;
    (*ret_reduction)->group_gradients = group_gradients;
    return 0;
}

int reduction_connect(struct reduction *reduction, struct err *err)
{
    if (reduction->sync)
        return gradient_sync_connect(reduction->sync, err);
    return reduction_is_local(&reduction->options) ? 0 : reduction->ops->connect(reduction, err);
}

int reduction_open_exchange(struct reduction *reduction, struct err *err)
{
    return reduction->sync ? gradient_sync_open_exchange(reduction->sync, err) : 0;
}

void reduction_close(struct reduction *reduction)
{
    if (!reduction)
        return;
    free(reduction->group_gradients);
    reduction->ops->close(reduction);
}

uint64_t reduction_rounds(const struct reduction *reduction)
{
    const struct reduction_options *options = &reduction->options;
    uint64_t ranks = options->batching.ranks;
    if (reduction_exchanges_each_micro_batch(options))
        return (batching_micros(&options->batching) + ranks - 1) / ranks;
    /* each rank exchanges in its own last round */
    return batching_owned_count(&options->batching);
}

bool reduction_has_micro_batch(const struct reduction *reduction, uint64_t round)
{
    return round < batching_owned_count(&reduction->options.batching);
}

bool reduction_is_hookless(const struct reduction *reduction, uint64_t round)
{
    const struct reduction_options *options = &reduction->options;
    return reduction_is_local(options) || !reduction->ops->release_group ||
           (!reduction_exchanges_each_micro_batch(options) &&
            round + 1 < reduction_rounds(reduction));
}

int reduction_begin(struct reduction *reduction, uint64_t step, struct err *err)
{
    return reduction->ops->begin(reduction, step, err);
}

void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory)
{
    reduction->round = round;
    memory->gradients =
        reduction->ops->get_leaf ? reduction->ops->get_leaf(reduction) : reduction->arena;
    memory->group_gradients = reduction->group_gradients;
}

static void record_failure(struct reduction *reduction, int status, const struct err *err)
{
    if (!status || reduction->status)
        return;
    reduction->status = status;
    reduction->err = *err;
}

/* True if this round's gradients of the group are exchanged. */
static bool is_exchanged(const struct reduction *reduction, uint64_t group)
{
    return reduction->options.partition->params->groups[group].trained_elements > 0 &&
           !reduction_is_hookless(reduction, reduction->round);
}

void reduction_acquire(struct reduction *reduction, uint64_t group)
{
    struct err err = {0};
    if (is_exchanged(reduction, group))
        record_failure(reduction, reduction->ops->acquire_group(reduction, group, &err), &err);
}

void reduction_release(struct reduction *reduction, uint64_t group)
{
    struct err err = {0};
    if (is_exchanged(reduction, group))
        record_failure(reduction, reduction->ops->release_group(reduction, group, &err), &err);
}

int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err)
{
    if (reduction->ops->end_leaf && reduction_is_hookless(reduction, round))
        reduction->ops->end_leaf(reduction);
    if (reduction->status && err)
        *err = reduction->err;
    return reduction->status;
}

int reduction_finish(struct reduction *reduction, struct err *err)
{
    return reduction->ops->finish(reduction, err);
}

const void *reduction_part(const struct reduction *reduction, uint64_t group)
{
    return reduction->ops->get_part(reduction, group);
}

int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                    struct err *err)
{
    const struct reduction_options *options = &reduction->options;
    const struct partition *partition = options->partition;
    if (reduction->sync) {
        void *shard = NULL;
        int status = gradient_sync_wait(reduction->sync, group, reduction->arena, &shard, err);
        *ret_gradients = shard ? shard : reduction_part(reduction, group);
        return status;
    }
    *ret_gradients = (const char *)reduction->arena +
                     partition_trained_shard(partition, group, partition->options.rank).offset *
                         ops_master_bytes(options->ops);
    return 0;
}

uint64_t reduction_waited_ns(const struct reduction *reduction)
{
    return reduction->sync ? gradient_sync_waited_ns(reduction->sync) : reduction->waited_ns;
}
