/*
 * evaluate — evaluates the validation set in its stored order, with center crops. See run.h.
 */
#include "base/clock.h"
#include "trainer/run/run.h"

#include <errno.h>

static void walk_model(struct run *run, const struct model_memory *memory)
{
    if (weights_require_hooks(&run->compute.weights)) /* other ranks may need this rank's weights */
        model_walk(run->compute.model, &run->compute.stage, memory, MODEL_FORWARD);
}

static int evaluate_batch(struct run *run, struct loader *loader, const struct batch *batch,
                          const struct model_memory *memory, struct step_sums *sums,
                          struct err *err)
{
    struct model_input input;
    uint64_t valid = 0;
    int status = batch_upload_push(&run->data.upload, loader, batch, &input, &valid, err);
    if (status)
        return status;
    if (valid > 0) {
        const struct model_result result = {run->compute.losses, run->compute.correct_flags};
        model_forward(run->compute.model, &run->compute.stage, memory, &run->compute.activations,
                      &input, NULL, NULL, &result);
        run_queue_add_result(&run->queue, &result, model_rows(run->compute.model));
        sums->valid_count += (int64_t)valid;
    } else {
        walk_model(run, memory);
    }
    return batch_upload_pop(&run->data.upload, err);
}

/* Extrapolates the total from this rank's samples. */
static void report_progress(const struct run *run, uint64_t done_count, uint64_t total_count)
{
    if (!run->options->report)
        return;
    uint64_t of_all_ranks = done_count * run->data.batching.ranks;
    struct trainer_report report = {.event = TRAINER_EVALUATING,
                                    .step = run->step,
                                    .steps = run->steps,
                                    .done_count =
                                        of_all_ranks < total_count ? of_all_ranks : total_count,
                                    .total_count = total_count};
    run_report(run, &report);
}

/* Shares has_batch and stop, so that all ranks end after the same round. */
static int agree_on_round(struct run *run, bool *has_batch, int64_t *stop, struct err *err)
{
    int64_t values[2] = {*has_batch, *stop};
    if (run->ranks.comm->ranks == 1)
        return 0;
    int status =
        run_ranks_reduce(&run->ranks, values, 2, COMM_OR, "a round of the evaluation", err);
    *has_batch = values[0];
    *stop = values[1];
    return status;
}

/* *ret_continues: whether any rank has a batch. */
static int evaluate_round(struct run *run, struct loader *loader, struct step_sums *own_sums,
                          uint64_t *done_count, bool *ret_continues, struct err *err)
{
    const struct batch *batch = NULL;
    struct model_memory memory;
    int next = loader_next(loader, &batch, err);
    if (next < 0)
        return next;
    *ret_continues = next == LOADER_BATCH;
    int status = agree_on_round(run, ret_continues, &own_sums->stop_requests, err);
    *ret_continues = *ret_continues && !own_sums->stop_requests;
    if (!status && *ret_continues)
        status = run_begin_pass(run, UINT64_MAX, &memory, err);
    if (status || !*ret_continues) {
        if (next == LOADER_BATCH)
            loader_release(loader, batch);
        return status;
    }
    if (next != LOADER_BATCH) {
        walk_model(run, &memory);
        return weights_status(&run->compute.weights, err);
    }
    *done_count += batch->items_count;
    status = evaluate_batch(run, loader, batch, &memory, own_sums, err);
    return status ? status : weights_status(&run->compute.weights, err);
}

static int evaluate_all(struct run *run, struct loader *loader, struct step_sums *ret_sums,
                        struct err *err)
{
    struct step_sums own_sums = {0};
    uint64_t done_count = 0, total_count = loader_shape(loader).samples;
    bool continues = true;
    int status = run_queue_zero_sums(&run->queue, err);
    report_progress(run, done_count, total_count);
    while (!status) {
        status = evaluate_round(run, loader, &own_sums, &done_count, &continues, err);
        if (status || !continues)
            break;
        report_progress(run, done_count, total_count);
        own_sums.stop_requests = own_sums.stop_requests || run_wants_stop(run);
    }
    int flushed = batch_upload_flush(&run->data.upload, status ? NULL : err);
    status = status ? status : flushed;
    if (!status)
        status = run_queue_read_sums(&run->queue, ret_sums, err);
    if (!status) {
        ret_sums->valid_count = own_sums.valid_count;
        ret_sums->samples_count = (int64_t)done_count;
        ret_sums->bad_count = (int64_t)loader_stats(loader).bad_samples_count;
        ret_sums->stop_requests = own_sums.stop_requests;
    }
    return status;
}

int run_evaluate(struct run *run, struct err *err)
{
    struct loader_options options = run_loader_options(run, false);
    struct loader *loader;
    struct step_sums sums;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    status = run_compare_data(run, loader, "data.val", err);
    if (!status)
        status = evaluate_all(run, loader, &sums, err);
    if (!status)
        status = run_ranks_reduce(&run->ranks, (int64_t *)&sums, STEP_SUMS_WORDS, COMM_SUM,
                                  "the evaluation's counts and losses", err);
    if (!status)
        status = run_check_bad_samples(run, loader, (uint64_t)sums.bad_count,
                                       (uint64_t)sums.samples_count, err);
    loader_close(loader);
    if (status)
        return status;
    if (sums.stop_requests > 0) {
        run->control.stop_requested = true;
        return 0;
    }
    if (sums.valid_count == 0) {
        err_set(err, -ENODATA, "the validation data is empty");
        err_at(err, run->config->data.val, ERR_NO_OFFSET);
        return -ENODATA;
    }
    run->control.evaluation = (struct evaluation){
        .is_present = true,
        .step = run->step,
        .valid_count = (uint64_t)sums.valid_count,
        .loss = exact_sum_value(&sums.losses) / (double)sums.valid_count,
        .accuracy = (double)sums.correct_count / (double)sums.valid_count,
    };
    return 0;
}
