/*
 * run_local — local updates: each rank updates its weights with its own gradients, and ranks
 * average the weights periodically (Stich, "Local SGD converges fast and communicates little",
 * ICLR 2019). See run.h.
 *
 * Evaluations average the weights; saves also average the moments, since a checkpoint holds a
 * single state.
 */
#include "trainer/run/run.h"

bool run_uses_local_sgd(const struct run *run)
{
    return run->config->parallel.local_sgd.steps > 0 && run->data.batching.ranks > 1;
}

int run_open_averaging(struct run *run, struct err *err)
{
    const struct rank_sum_options options = {.comm = run->ranks.comm,
                                             .ops = run->compute.ops,
                                             .bucket_bytes = run->config->parallel.bucket_bytes,
                                             .elements_max = run->compute.params->trained_elements,
                                             .timeout_ns = run->config->parallel.timeout_ns,
                                             .purpose = "the mean of weights and moments",
                                             .trace_name = "mean of weights"};
    return run_uses_local_sgd(run) ? rank_sum_open(&run->update.averaging, &options, err) : 0;
}

/* Skips frozen weights, which averaging would round. */
static int average_group(struct run *run, uint64_t group, struct err *err)
{
    uint64_t next = 0, first = run->compute.params->groups[group].offset;
    struct params_span span;
    int status = 0;
    while (!status && params_next_span(run->compute.params, group, &next, &span))
        status = rank_sum_mean(&run->update.averaging,
                               (char *)weights_shard(&run->compute.weights, group) +
                                   (span.offset - first) * ops_master_bytes(run->compute.ops),
                               span.elements, err);
    return status;
}

int run_average_weights(struct run *run, bool force, struct err *err)
{
    const struct comm_traffic before = comm_counts_read(&run->ranks.traffic);
    int status = 0;
    if (!run->update.weights_differ ||
        (!force && run->step % run->config->parallel.local_sgd.steps != 0))
        return 0;
    range_begin(&run->ranges, RANGE_REDUCE);
    /* an update since the last averaging has copied the weights for any save in progress */
    for (uint64_t group = 0; group < run->compute.params->groups_count && !status; group++)
        status = average_group(run, group, err);
    if (!status)
        status = weights_refresh(&run->compute.weights, err);
    run->update.weights_differ = false;
    run->update.averaging_traffic = comm_counts_since(&run->ranks.traffic, &before);
    range_end(&run->ranges);
    return status;
}

struct comm_traffic run_step_traffic(const struct run *run)
{
    uint64_t steps = run_uses_local_sgd(run) ? run->config->parallel.local_sgd.steps : 1;
    return (struct comm_traffic){run->update.step_traffic.sent_bytes +
                                     run->update.averaging_traffic.sent_bytes / steps,
                                 run->update.step_traffic.received_bytes +
                                     run->update.averaging_traffic.received_bytes / steps};
}

static int average_moments(struct run *run, struct err *err)
{
    unsigned count = optimizer_moments_count(&run->update.optimizer.options);
    int status = 0;
    if (!run->update.moments_differ)
        return 0;
    range_begin(&run->ranges, RANGE_REDUCE);
    for (unsigned i = 0; i < count && !status; i++)
        status = rank_sum_mean(&run->update.averaging, run->update.optimizer.moments[i],
                               run->compute.partition.trained_shards.elements, err);
    run->update.moments_differ = false;
    range_end(&run->ranges);
    return status;
}

int run_average_state(struct run *run, struct err *err)
{
    int status = run_average_weights(run, true, err);
    return status ? status : average_moments(run, err);
}
