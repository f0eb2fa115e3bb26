/*
 * run_drain — reads the results of queued steps. See run.h.
 */
#include "trainer/run/run.h"

#include <errno.h>

static int set_not_finite_error(const struct queued_step *queued, struct err *err)
{
    err_set(err, -EDOM, "loss or gradients of step %llu are not finite",
            (unsigned long long)queued->step);
    err_advise(err, "lower optimizer.lr or optimizer.clip_norm; the newest checkpoint is from "
                    "before this step");
    return -EDOM;
}

static void add_to_window(struct step_totals *totals, const struct queued_step *queued)
{
    const struct step_sums *sums = &queued->record->sums;
    const struct gradient_clip *clip = &queued->record->clip;
    totals->samples_count += (uint64_t)queued->samples_count;
    totals->gradient_norm = clip->norm;
    totals->lr = clip->scalars.lr;
    if (!clip->is_finite) /* exclude skipped steps from the mean */
        return;
    exact_sum_merge(&totals->losses, &sums->losses);
    totals->valid_count += (uint64_t)queued->valid_count;
}

static int retire_oldest_step(struct run *run, struct err *err)
{
    const struct queued_step *oldest;
    int status = run_queue_pop(&run->queue, &oldest, err);
    if (status)
        return status;
    const struct gradient_clip *clip = &oldest->record->clip;
    if (clip->has_failed) /* all ranks fail, since their sums are equal */
        return run_ranks_agree(&run->ranks, set_not_finite_error(oldest, err), "the end", err);
    if (!clip->is_finite)
        log_line(
            run->options->log, LOG_INFO,
            "step %llu was skipped because a gradient overflowed; the loss scale is now %g, was %g",
            (unsigned long long)oldest->step, clip->scaler.scale, run->update.scaler.scale);
    run->update.scaler = clip->scaler;
    run->update.optimizer.updates = clip->updates_count;
    run->queue.device_times = oldest->record->timer.times;
    add_to_window(&run->queue.window, oldest);
    return 0;
}

int run_drain(struct run *run, uint64_t pending_max, struct err *err)
{
    int status = 0;
    while (run->queue.count > pending_max && !status)
        status = retire_oldest_step(run, err);
    return status;
}

int run_drain_all(struct run *run, struct err *err)
{
    range_begin(&run->ranges, RANGE_WAIT);
    int status = run_drain(run, 0, err);
    range_end(&run->ranges);
    return status;
}
