/*
 * run_sync — compares replicated state: parts of weights and moments, and the weights used by
 * passes. See run.h and sync_check.h.
 */
#include "trainer/run/run.h"

#include "trainer/parallel/sync_check.h"

static unsigned tensor_kinds_count(const struct run *run)
{
    return 1 + optimizer_moments_count(&run->update.optimizer.options);
}

int run_open_sync_check(struct run *run, struct err *err)
{
    /* this rank's weights and moments, and weights used by passes; a tied head counts twice */
    uint64_t pieces_max = (tensor_kinds_count(run) + 2) * run->compute.params->count;
    /* uncounted: comparisons are not part of a step's traffic */
    return sync_check_open(run->ranks.uncounted_comm, run->compute.device, pieces_max,
                           &run->sync_check, err);
}

static void add_own_rows(const struct run *run, const struct param *param, unsigned kind)
{
    const struct partition *partition = &run->compute.partition;
    struct span shard = partition_shard(partition, param->group, partition->options.rank);
    struct row_range rows = span_rows(&shard, param);
    uint64_t row_bytes = param_row_elements(param) * ops_master_bytes(run->compute.ops);
    const struct sync_piece piece = {
        .kind =
            kind > 0 ? optimizer_moment_name(run->update.optimizer.options.rule, kind - 1) : NULL,
        .name = param->name,
        .offset_bytes = rows.first * row_bytes,
        .bytes = rows.count * row_bytes,
        .data = rows.count > 0 ? run_tensors_row(&run->compute, &run->update.optimizer, param,
                                                 rows.first, kind)
                               : NULL,
    };
    if (kind == 0 || !param->frozen)
        sync_check_add(run->sync_check, &piece);
}

/* Adds the group's whole tensors, as used by passes. weights: their start. */
static void add_group(const struct run *run, uint64_t group, const void *weights)
{
    const struct param_group *g = &run->compute.params->groups[group];
    size_t element_bytes = ops_compute_bytes(run->compute.ops);
    for (uint64_t i = g->first; i < g->first + g->count; i++) {
        const struct param *param = &run->compute.params->list[i];
        const struct sync_piece piece = {.name = param->name,
                                         .bytes = param->count * element_bytes,
                                         .data = (const char *)weights +
                                                 (param->offset - g->offset) * element_bytes};
        sync_check_add(run->sync_check, &piece);
    }
}

struct gather_walk {
    struct run *run;
    int status; /* of the device, which reports an error only once */
    struct err *err;
};

static void acquire_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct gather_walk *walk = context;
    struct run *run = walk->run;
    (void)direction;
    weights_acquire(&run->compute.weights, group);
    if (walk->status || weights_status(&run->compute.weights, NULL))
        return;
    walk->status = run->compute.ops->table->sync(run->compute.ops, walk->err);
    if (!walk->status)
        add_group(run, group, run->compute.weights.group_weights[group]);
}

static void release_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct gather_walk *walk = context;
    (void)direction;
    weights_release(&walk->run->compute.weights, group);
}

static int add_gathered_groups(struct run *run, struct err *err)
{
    struct gather_walk walk = {.run = run, .err = err};
    const struct model_memory memory = {
        .acquire = acquire_group, .release = release_group, .context = &walk};
    int status = weights_begin_pass(&run->compute.weights, err);
    if (status)
        return status;
    model_walk(run->compute.model, &run->compute.stage, &memory, MODEL_FORWARD);
    if (walk.status)
        return walk.status;
    status = weights_status(&run->compute.weights, err);
    return status ? status : run->compute.ops->table->sync(run->compute.ops, err);
}

/* Skips weights that every rank updates in full, because add_group covers them. */
static void add_own_state(struct run *run)
{
    const struct weights *weights = &run->compute.weights;
    for (uint64_t i = 0; i < run->compute.params->count; i++) {
        const struct param *param = &run->compute.params->list[i];
        bool skips_weights = weights->master == weights->whole && run->ranks.comm->ranks > 1 &&
                             partition_is_whole(&run->compute.partition, param->group);
        for (unsigned kind = skips_weights; kind < tensor_kinds_count(run); kind++)
            add_own_rows(run, param, kind);
    }
}

static int add_all(struct run *run, struct err *err)
{
    const struct weights *weights = &run->compute.weights;
    int status = weights_drain(&run->compute.weights, err);
    if (!status)
        status = run->compute.ops->table->sync(run->compute.ops, err);
    if (status)
        return status;
    add_own_state(run);
    if (run->ranks.comm->ranks == 1)
        return 0;
    if (!weights->whole)
        return add_gathered_groups(run, err);
    for (uint64_t g = 0; g < run->compute.params->groups_count; g++)
        add_group(run, g,
                  (const char *)weights->whole +
                      run->compute.params->groups[g].offset * ops_compute_bytes(run->compute.ops));
    return 0;
}

int run_check_sync(struct run *run, struct err *err)
{
    sync_check_begin(run->sync_check);
    int status = add_all(run, err);
    if (status && !run->compute.weights.whole)
        /* only an abort ends a gather that other ranks began without this rank */
        return status;
    struct comm_options options = run_ranks_comm_options(&run->ranks, "comparing the ranks");
    return sync_check_compare(run->sync_check, run->step, status, &options, err);
}

int run_recheck_own_state(struct run *run, struct err *err)
{
    if (!run->sync_check || !sync_check_can_recheck(run->sync_check))
        return 0;
    sync_check_begin_recheck(run->sync_check);
    add_own_state(run);
    struct comm_options options =
        run_ranks_comm_options(&run->ranks, "rechecking the state that each rank keeps");
    return sync_check_end_recheck(run->sync_check, 0, &options, err);
}
