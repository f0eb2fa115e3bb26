/*
 * step — one update of a run: micro-batches forward and backward one at a time, the canonical sum of their gradients, the
 * exact norm, the optimizer group by group. See run.h.
 *
 * Everything that ranks must agree on travels in one exact reduction of integers: counts, the losses' and the squares' exact
 * sums, and the wish to stop.
 */
#include "trainer/micro.h"
#include "trainer/run.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* What one reduction carries; all words are int64. */
struct step_words {
    int64_t valid_count, correct_count, samples_count, stop;
    struct exact_sum losses, squares;
};

static_assert(sizeof(struct step_words) == (4 + 2 * EXACT_SUM_WORDS) * sizeof(int64_t),
              "words without padding");

static int micro_gradients(struct run *run, struct step_totals *totals, struct err *err)
{
    const struct batch *batch;
    int status = loader_next(run->loader, &batch, err);
    if (status == LOADER_END)
        return err_set(err, -ENODATA, "the training data ended before the run did");
    if (status != LOADER_BATCH)
        return status;
    struct model_input input;
    uint64_t valid = 0;
    status = micro_input(run, batch, &input, &valid, err);
    if (!status) {
        struct model_result result = {.losses = run->losses, .correct = run->correct};
        model_forward(run->model, &run->stage, run->weights, run->activations, &input, NULL, NULL, &result,
                      true);
        model_backward(run->model, &run->stage, run->weights, run->activations, &input, tree_leaf(&run->tree),
                       NULL, NULL, NULL, NULL);
        status = run->ops->table->sync(run->ops, err);
    }
    if (!status) {
        micro_add_result(run, &input, totals);
        totals->valid_count += valid;
        totals->samples_count += batch->items_count;
        tree_push(&run->tree);
    }
    loader_release(run->loader, batch);
    return status;
}

static int reduce(struct run *run, struct step_words *words, struct err *err)
{
    struct comm_options options = {.what = "the step's counts, losses and norm"};
    struct comm_work work;
    int status = run->comm->ops->all_reduce_i64(run->comm, (int64_t *)words, sizeof *words / sizeof(int64_t),
                                                COMM_SUM, &options, &work, err);
    return status ? status : comm_wait(run->comm, &work, err);
}

int run_step(struct run *run, struct step_totals *totals, struct err *err)
{
    struct step_totals mine = {0};
    struct step_words words = {0};
    int status = 0;
    tree_reset(&run->tree);
    for (uint64_t n = 0; n < batching_owned_count(&run->batching) && !status; n++)
        status = micro_gradients(run, &mine, err);
    if (status)
        return status;
    const void *gradients = tree_finish(&run->tree);
    status = optimizer_sum_squares(&run->optimizer, gradients, &words.squares, err);
    if (status)
        return status;
    words.valid_count = (int64_t)mine.valid_count;
    words.correct_count = (int64_t)mine.correct_count;
    words.samples_count = (int64_t)mine.samples_count;
    words.losses = mine.losses;
    words.stop = run->options->stop && atomic_load(run->options->stop) != 0;
    status = reduce(run, &words, err);
    if (status)
        return status;

    double norm, scale = optimizer_gradient_scale(&run->optimizer, exact_sum_value(&words.squares),
                                                  (double)words.valid_count, &norm);
    if (!isfinite(norm) || !isfinite(exact_sum_value(&words.losses))) {
        err_set(err, -EDOM, "loss or gradients of step %llu are not finite",
                (unsigned long long)run->step + 1);
        return err_advise(
            err, "lower optimizer.lr or optimizer.clip_norm; the newest checkpoint is from before this step");
    }
    double lr = schedule_lr(&run->schedule, run->step);
    optimizer_begin_update(&run->optimizer);
    for (uint64_t group = 0; group < run->params->groups_count; group++) {
        ckpt_saver_before_update(run->saver, (uint32_t)group);
        optimizer_update_group(&run->optimizer, group, run->weights, gradients, lr, scale);
    }
    status = run->ops->table->sync(run->ops, err);
    if (status)
        return status;

    run->step++;
    run->stop_requested = words.stop > 0;
    exact_sum_merge(&totals->losses, &words.losses);
    totals->valid_count += (uint64_t)words.valid_count;
    totals->correct_count += (uint64_t)words.correct_count;
    totals->samples_count += (uint64_t)words.samples_count;
    totals->gradient_norm = norm;
    totals->lr = lr;
    return 0;
}
