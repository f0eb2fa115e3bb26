/*
 * evaluate — the whole validation set, in its own order, centre crops, each sample once. See run.h.
 */
#include "base/clock.h"
#include "trainer/micro.h"
#include "trainer/run.h"

#include <errno.h>

static int evaluate_batch(struct run *run, const struct batch *batch, struct step_totals *totals,
                          struct err *err)
{
    struct model_input input;
    uint64_t valid = 0;
    int status = micro_input(run, batch, &input, &valid, err);
    if (status || valid == 0)
        return status;
    struct model_result result = {.losses = run->losses, .correct = run->correct};
    model_forward(run->model, &run->stage, run->weights, run->activations, &input, NULL, NULL, &result,
                  false);
    status = run->ops->table->sync(run->ops, err);
    if (status)
        return status;
    micro_add_result(run, &input, totals);
    totals->valid_count += valid;
    return 0;
}

int run_evaluate(struct run *run, struct err *err)
{
    struct loader_options options = run_loader_options(run, run->config->data.val, false);
    struct loader *loader;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    struct step_totals totals = {0};
    const struct batch *batch;
    int64_t stop = 0;
    while (!stop && (status = loader_next(loader, &batch, err)) == LOADER_BATCH) {
        status = evaluate_batch(run, batch, &totals, err);
        loader_release(loader, batch);
        if (status)
            break;
        stop = run->options->stop && atomic_load(run->options->stop) != 0;
    }
    loader_close(loader);
    if (status)
        return status;

    struct {
        int64_t valid_count, correct_count, stop;
        struct exact_sum losses;
    } words = {(int64_t)totals.valid_count, (int64_t)totals.correct_count, stop, totals.losses};
    struct comm_options comm_options = {.what = "the evaluation's counts and losses"};
    struct comm_work work;
    status = run->comm->ops->all_reduce_i64(run->comm, &words.valid_count, sizeof words / sizeof(int64_t),
                                            COMM_SUM, &comm_options, &work, err);
    if (!status)
        status = comm_wait(run->comm, &work, err);
    if (status)
        return status;
    if (words.stop > 0) {
        run->stop_requested = true;
        return 0;
    }
    if (words.valid_count == 0) {
        err_set(err, -ENODATA, "the validation data is empty");
        err_at(err, run->config->data.val, ERR_NO_OFFSET);
        return -ENODATA;
    }
    run->evaluation = (struct evaluation){
        .present = true,
        .step = run->step,
        .valid_count = (uint64_t)words.valid_count,
        .loss = exact_sum_value(&words.losses) / (double)words.valid_count,
        .accuracy = (double)words.correct_count / (double)words.valid_count,
    };
    return 0;
}

int trainer_evaluate(const struct trainer_options *options, const char *from,
                     struct trainer_evaluation *ret_evaluation, struct err *err)
{
    struct run run;
    int status = run_open_for_evaluation(&run, options, from, err);
    if (status)
        return status;
    uint64_t began_ns = clock_now_ns();
    status = run_evaluate(&run, err);
    if (!status && run.stop_requested)
        status = err_set(err, -ECANCELED, "the evaluation was stopped on request");
    if (!status)
        *ret_evaluation = (struct trainer_evaluation){
            .valid_count = run.evaluation.valid_count,
            .loss = run.evaluation.loss,
            .accuracy = run.evaluation.accuracy,
            .seconds = clock_seconds(clock_now_ns() - began_ns),
        };
    run_close(&run);
    return status;
}
