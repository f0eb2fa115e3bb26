/*
 * step — one update of a run: micro-batches forward and backward one at a time, the canonical sum of their gradients, the
 * exact norm, the optimizer group by group. See run.h.
 *
 * Everything that ranks must agree on travels in one exact reduction of integers: counts, the losses' and the squares' exact
 * sums, and the wish to stop. The device gathers them while it computes, and the host waits for it once a step.
 */
#include "trainer/run.h"

#include <errno.h>
#include <math.h>

int run_begin_words(struct run *run, struct err *err)
{
    return run->device->ops->fill(run->device, run->ops->stream, run->device_words, 0,
                                  sizeof *run->device_words, err);
}

void run_add_result(struct run *run, const struct model_result *result)
{
    const struct ops_table *table = run->ops->table;
    uint64_t rows = model_rows(run->model);
    table->exact_add(run->ops, run->device_words->losses.limb, result->losses, rows);
    table->count_add(run->ops, &run->device_words->correct_count, result->correct, rows);
}

int run_read_words(struct run *run, struct run_words *ret_words, struct err *err)
{
    int copied = run->device->ops->copy(run->device, run->ops->stream, run->host_words, run->device_words,
                                        sizeof *run->host_words, err);
    int status =
        run->ops->table->sync(run->ops, err); /* knows the first cause, where the copy failed for it */
    if (status || copied)
        return status ? status : copied;
    *ret_words = *run->host_words;
    return 0;
}

int run_reduce_words(struct run *run, struct run_words *words, const char *what, struct err *err)
{
    struct comm_options options = {.what = what};
    struct comm_work work;
    int status = run->comm->ops->all_reduce_i64(run->comm, (int64_t *)words, sizeof *words / sizeof(int64_t),
                                                COMM_SUM, &options, &work, err);
    return status ? status : comm_wait(run->comm, &work, err);
}

static int micro_gradients(struct run *run, struct run_words *words, struct err *err)
{
    const struct batch *batch;
    int status = loader_next(run->loader, &batch, err);
    if (status == LOADER_END)
        return err_set(err, -ENODATA, "the training data ended before the run did");
    if (status != LOADER_BATCH)
        return status;
    uint32_t items = batch->items_count;
    struct model_input input;
    uint64_t valid = 0;
    status = feed_push(&run->feed, run->loader, batch, &input, &valid, err);
    if (status)
        return status;
    const struct model_result result = {run->losses, run->correct};
    input.loss_scale = scaler_factor(&run->scaler);
    model_forward(run->model, &run->stage, run->compute_weights, run->activations, &input, NULL, NULL, NULL);
    model_backward(run->model, &run->stage, run->compute_weights, run->activations, &input,
                   tree_leaf(&run->tree), &result, NULL, NULL, NULL, NULL);
    tree_push(&run->tree);
    run_add_result(run, &result);
    words->valid_count += (int64_t)valid;
    words->samples_count += items;
    return feed_pop(&run->feed, err);
}

static void update(struct run *run, const void *gradients, double lr, double scale)
{
    void *compute = run->compute_weights == run->weights ? NULL : run->compute_weights;
    optimizer_begin_update(&run->optimizer);
    for (uint64_t group = 0; group < run->params->groups_count; group++) {
        ckpt_saver_before_update(run->saver, (uint32_t)group);
        optimizer_update_group(&run->optimizer, group, run->weights, compute, gradients, lr, scale);
    }
}

static void add_to_totals(struct step_totals *totals, const struct run_words *words, bool is_finite)
{
    totals->samples_count += (uint64_t)words->samples_count;
    if (!is_finite) /* the mean is that of the steps that counted */
        return;
    exact_sum_merge(&totals->losses, &words->losses);
    totals->valid_count += (uint64_t)words->valid_count;
    totals->correct_count += (uint64_t)words->correct_count;
}

int run_step(struct run *run, struct step_totals *totals, struct err *err)
{
    struct run_words mine = {0}, words;
    int status = run_begin_words(run, err);
    tree_reset(&run->tree);
    for (uint64_t n = 0; n < batching_owned_count(&run->batching) && !status; n++)
        status = micro_gradients(run, &mine, err);
    if (status)
        return status;
    const void *gradients = tree_finish(&run->tree);
    optimizer_sum_squares(&run->optimizer, gradients, run->device_words->squares.limb);
    status = run_read_words(run, &words, err);
    if (status)
        return status;
    words.valid_count = mine.valid_count;
    words.samples_count = mine.samples_count;
    words.stop = run->options->stop && atomic_load(run->options->stop) != 0;
    status = run_reduce_words(run, &words, "the step's counts, losses and norm", err);
    if (status)
        return status;

    double norm,
        scale = optimizer_gradient_scale(&run->optimizer, exact_sum_value(&words.squares),
                                         (double)words.valid_count * scaler_factor(&run->scaler), &norm);
    bool is_finite = isfinite(norm) && isfinite(exact_sum_value(&words.losses));
    double lr = schedule_lr(&run->schedule, run->optimizer.updates), loss_scale = run->scaler.scale;
    if (!scaler_update(&run->scaler, is_finite)) {
        err_set(err, -EDOM, "loss or gradients of step %llu are not finite",
                (unsigned long long)run->step + 1);
        return err_advise(
            err, "lower optimizer.lr or optimizer.clip_norm; the newest checkpoint is from before this step");
    }
    if (is_finite)
        update(run, gradients, lr, scale);
    else
        log_line(run->options->log, LOG_INFO,
                 "step %llu is skipped: a gradient overflowed; the loss is scaled by %g now, not %g",
                 (unsigned long long)run->step + 1, run->scaler.scale, loss_scale);
    run->step++;
    run->stop_requested = words.stop > 0;
    add_to_totals(totals, &words, is_finite);
    totals->gradient_norm = norm;
    totals->lr = lr;
    return 0;
}
