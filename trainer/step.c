/*
 * step — one update of a run: micro-batches forward and backward one at a time, the canonical sum of their gradients, the
 * exact norm, the decision, the optimizer group by group. See run.h.
 *
 * Everything that ranks must agree on travels in one exact reduction of integers: counts, the losses' and the squares' exact
 * sums, and the wish to stop. The device gathers sums while it computes, and decides; where there are more ranks than one, the host
 * waits for it between the two, once a step.
 */
#include "base/clock.h"
#include "trainer/run.h"

#include <errno.h>

int run_begin_words(struct run *run, struct err *err)
{
    return run->device->ops->fill(run->device, run->ops->stream, &run->device_record->words, 0,
                                  sizeof run->device_record->words, err);
}

void run_add_result(struct run *run, const struct model_result *result)
{
    const struct ops_table *table = run->ops->table;
    uint64_t rows = model_rows(run->model);
    table->exact_add(run->ops, run->device_record->words.losses.limb, result->losses, rows);
    table->count_add(run->ops, &run->device_record->words.correct_count, result->correct, rows);
}

int run_read_words(struct run *run, struct run_words *ret_words, struct err *err)
{
    int copied = run->device->ops->copy(run->device, run->ops->stream, run->host_words,
                                        &run->device_record->words, sizeof *run->host_words, err);
    int status =
        run->ops->table->sync(run->ops, err); /* knows the first cause, where the copy failed for it */
    if (status || copied)
        return status ? status : copied;
    *ret_words = *run->host_words;
    return 0;
}

int run_reduce_words(struct run *run, struct run_words *words, const char *what, struct err *err)
{
    struct comm_options options = run_comm_options(run, what);
    struct comm_work work;
    int status = run->comm->ops->all_reduce_i64(run->comm, (int64_t *)words, sizeof *words / sizeof(int64_t),
                                                COMM_SUM, &options, &work, err);
    return status ? status : comm_wait(run->comm, &work, err);
}

/* counts: of the host's keeping, of this rank; become those of all, as do the words in device memory. One rank has both. */
static int share_words(struct run *run, struct run_words *counts, struct err *err)
{
    if (run->comm->ranks == 1)
        return 0;
    struct run_words words;
    int status = run_read_words(run, &words, err);
    if (status)
        return status;
    words.valid_count = counts->valid_count;
    words.samples_count = counts->samples_count;
    words.stop = counts->stop;
    words.save = counts->save;
    status = run_reduce_words(run, &words, "the step's counts, losses and norm", err);
    if (status)
        return status;
    *counts = *run->host_words = words; /* nobody copies from there: the words were read */
    return run->device->ops->copy(run->device, run->ops->stream, &run->device_record->words, run->host_words,
                                  sizeof words, err);
}

bool run_wishes_stop(struct run *run)
{
    if (run->options->stop && atomic_load(run->options->stop) != 0)
        return true;
    bool is_up = run->comm->rank == 0 && triggers_must_stop(&run->triggers, clock_now_ns());
    run->time_is_up = run->time_is_up || is_up;
    return is_up;
}

struct pass {
    struct run *run;
    const struct model_input *input;
};

/* A micro-batch forward and backward, into the leaf. */
static void queue_pass(void *context)
{
    const struct pass *pass = context;
    struct run *run = pass->run;
    const struct model_result result = {run->losses, run->correct};
    range_begin(&run->ranges, RANGE_FORWARD);
    model_forward(run->model, &run->stage, run->compute_weights, &run->activations, pass->input, NULL, NULL,
                  NULL);
    range_end(&run->ranges);
    range_begin(&run->ranges, RANGE_BACKWARD);
    model_backward(run->model, &run->stage, run->compute_weights, &run->activations, pass->input,
                   tree_leaf(&run->tree), &result, NULL, NULL, NULL, NULL);
    run_add_result(run, &result);
    range_end(&run->ranges);
}

struct sums {
    struct run *run;
    const void *gradients; /* the sum of all leaves, which is where the first was */
};

static void queue_sums(void *context)
{
    const struct sums *sums = context;
    struct run *run = sums->run;
    optimizer_sum_squares(&run->optimizer, sums->gradients, run->device_record->words.squares.limb);
}

static int micro_gradients(struct run *run, struct run_words *counts, struct err *err)
{
    const struct batch *batch;
    range_begin(&run->ranges, RANGE_DATA);
    int status = loader_next(run->loader, &batch, err);
    range_end(&run->ranges);
    if (status == LOADER_END)
        return err_set(err, -ENODATA, "the training data ended before the run did");
    if (status != LOADER_BATCH)
        return status;
    uint32_t items = batch->items_count;
    struct model_input input;
    uint64_t valid = 0;
    range_begin(&run->ranges, RANGE_FEED);
    status = feed_push(&run->feed, run->loader, batch, &input, &valid, err);
    range_end(&run->ranges);
    if (status)
        return status;
    input.loss_scale = &run->device_record->decision.loss_factor;
    struct pass pass = {run, &input};
    range_begin(&run->ranges, RANGE_MICRO);
    status = replay_run(&run->passes, run->tree.depth * FEED_VARIANTS + feed_variant(&run->feed), queue_pass,
                        &pass, err);
    if (!status)
        tree_push(&run->tree);
    range_end(&run->ranges);
    if (status) {
        int cause = offload_status(run->activations.offload, err);
        return cause ? cause : status;
    }
    counts->valid_count += (int64_t)valid;
    counts->samples_count += items;
    range_begin(&run->ranges, RANGE_FEED);
    status = feed_pop(&run->feed, err);
    range_end(&run->ranges);
    return status;
}

static void update(struct run *run, const void *gradients)
{
    void *compute = run->compute_weights == run->weights ? NULL : run->compute_weights;
    for (uint64_t group = 0; group < run->params->groups_count; group++) {
        if (run->params->groups[group].trained_elements == 0)
            continue;
        range_begin(&run->ranges, RANGE_STAGE);
        ckpt_saver_before_update(run->saver, (uint32_t)group);
        range_end(&run->ranges);
        optimizer_update_group(&run->optimizer, group, run->weights, compute, gradients,
                               &run->device_record->decision.scalars);
    }
}

int run_step(struct run *run, struct err *err)
{
    struct run_words counts = {0};
    int status = run_begin_words(run, err);
    tree_reset(&run->tree);
    for (uint64_t n = 0; n < batching_owned_count(&run->batching) && !status; n++)
        status = micro_gradients(run, &counts, err);
    if (status)
        return status;
    range_begin(&run->ranges, RANGE_NORM);
    struct sums sums = {run, tree_finish(&run->tree)};
    status = replay_run(&run->sums, 0, queue_sums, &sums, err);
    range_end(&run->ranges);
    if (status)
        return status;
    counts.stop = run_wishes_stop(run);
    counts.save = run->comm->rank == 0 && triggers_save_by_clock(&run->triggers, clock_now_ns());
    range_begin(&run->ranges, RANGE_REDUCE);
    status = share_words(run, &counts, err);
    range_end(&run->ranges);
    if (!status) /* of passes that could not be queued no update is made */
        status = offload_status(run->activations.offload, err);
    if (!status)
        status = run->ops->table->status(run->ops, err);
    if (status)
        return status;
    range_begin(&run->ranges, RANGE_UPDATE);
    run_decide(run, counts.valid_count);
    update(run, sums.gradients);
    range_end(&run->ranges);
    run->stop_requested = counts.stop > 0;
    run->save_requested = counts.save > 0;
    status = run_end_step(run, &counts, err);
    range_begin(&run->ranges, RANGE_WAIT);
    if (!status)
        status = run_settle(run, run->device->ops->is_host ? 0 : DECISION_AHEAD_MAX, err);
    range_end(&run->ranges);
    return status;
}
