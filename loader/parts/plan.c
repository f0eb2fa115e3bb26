/*
 * plan — see plan.h.
 */
#include "loader/parts/plan.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>

int plan_init(struct plan *plan, const struct plan_options *options, struct err *err)
{
    int status = batching_check(&options->batching, err);
    if (status)
        return status;
    uint64_t samples = options->samples, global = options->batching.global;
    uint64_t epoch_end = options->drop_last  ? samples / global * global
                         : options->pad_last ? bytes_round_up(samples, global)
                                             : samples;
    if (epoch_end == 0) {
        err_set(err, -EINVAL, "the dataset has fewer samples than one global batch");
        err_expected(err, "at least %" PRIu64 ", as the tail of an epoch is dropped", global);
        err_found(err, "%" PRIu64, samples);
        err_advise(err, "use a smaller global batch");
        return -EINVAL;
    }
    if (options->position > samples) {
        err_set(err, -EINVAL, "the start position is beyond the end of the epoch");
        err_expected(err, "a position of at most %" PRIu64, samples);
        err_found(err, "%" PRIu64, options->position);
        err_advise(err, "start at a later epoch");
        return -EINVAL;
    }
    if (options->micros_done >= batching_micros(&options->batching)) {
        err_set(err, -EINVAL, "the state has more micro-batches than a step");
        err_expected(err, "fewer than the %" PRIu64 " of a step are done",
                     batching_micros(&options->batching));
        err_found(err, "%" PRIu64, options->micros_done);
        err_advise(err, "resume with the batch and micro-batch of the saved state");
        return -EINVAL;
    }
    *plan = (struct plan){.batching = options->batching,
                          .order = options->order,
                          .samples = samples,
                          .epoch_end = epoch_end,
                          .positions_left =
                              options->positions_max ? options->positions_max : UINT64_MAX,
                          .epochs_left = options->epochs_max ? options->epochs_max : UINT64_MAX,
                          .epoch = options->epoch,
                          .position = options->position,
                          .micros_done = options->micros_done};
    return 0;
}

uint64_t plan_steps(const struct plan *plan)
{
    return (plan->epoch_end + plan->batching.global - 1) / plan->batching.global;
}

/* Finds the current step, [plan->position, *ret_end). *ret_is_cut: positions_max ends it early.
 * False if no positions are left. */
static bool find_step(struct plan *plan, uint64_t *ret_end, bool *ret_is_cut)
{
    if (plan->positions_left == 0)
        return false;
    if (plan->position >= plan->epoch_end) {
        if (plan->epochs_left <= 1 || plan->epoch == UINT32_MAX)
            return false;
        if (plan->epochs_left != UINT64_MAX)
            plan->epochs_left--;
        plan->epoch++;
        plan->position = plan->micros_done = 0;
    }
    uint64_t step_end = (plan->position / plan->batching.global + 1) * plan->batching.global;
    uint64_t end = bytes_min(step_end, plan->epoch_end);
    *ret_end = plan->position + bytes_min(end - plan->position, plan->positions_left);
    *ret_is_cut = *ret_end < end;
    return true;
}

/* A step's micro-batches that are not done, as if they were a step. */
static struct batching remaining(const struct plan *plan)
{
    struct batching rest = plan->batching;
    rest.global -= plan->micros_done * rest.micro;
    return rest;
}

/* True if the ranks deliver a step's micro-batches in their order: micro-batch n of rank r is
 * number n * W + r. */
static bool delivers_in_order(const struct batching *batching)
{
    return batching->interleaved || batching->ranks == 1;
}

/* If positions_max cuts a step, its micro-batches lack their last items, so a run can only resume
 * at the position where it is cut, unless earlier micro-batches were not cut. */
static bool is_resumable(const struct plan *plan, bool is_cut, bool is_last)
{
    return is_cut ? is_last && plan->micros_done == 0
                  : is_last || delivers_in_order(&plan->batching);
}

bool plan_next(struct plan *plan, struct plan_micro *ret_micro)
{
    uint64_t end;
    bool is_cut;
    if (!find_step(plan, &end, &is_cut))
        return false;
    struct batching rest = remaining(plan);
    uint64_t owned_count = batching_owned_count(&rest), n = plan->next_owned;
    uint64_t number = n < owned_count ? batching_owned_micro(&rest, n) : batching_micros(&rest);
    bool is_last = n + 1 >= owned_count;
    bool ends_epoch = is_last && end == plan->epoch_end && plan->epoch != UINT32_MAX;
    *ret_micro = (struct plan_micro){.epoch = plan->epoch,
                                     .step = plan->position / plan->batching.global,
                                     .micro = plan->micros_done + number,
                                     .begin = plan->position,
                                     .end = end,
                                     .last_of_step = is_last,
                                     .is_resumable = is_resumable(plan, is_cut, is_last),
                                     .next_epoch = ends_epoch ? plan->epoch + 1 : plan->epoch,
                                     .next_position = plan->position};
    if (is_last)
        ret_micro->next_position = ends_epoch ? 0 : end;
    else if (ret_micro->is_resumable)
        ret_micro->next_micros_done = plan->micros_done + (n + 1) * rest.ranks;
    plan->next_owned++;
    if (is_last) {
        plan->next_owned = plan->micros_done = 0;
        if (plan->positions_left != UINT64_MAX)
            plan->positions_left -= end - plan->position;
        plan->position = end;
    }
    return true;
}

uint32_t plan_item_positions(const struct plan *plan, const struct plan_micro *micro,
                             uint64_t *ret_first, uint64_t *ret_stride)
{
    if (micro->micro == batching_micros(&plan->batching)) {
        *ret_first = micro->end;
        *ret_stride = 1;
        return 0;
    }
    struct batching_positions whole = batching_positions(
        &plan->batching, plan->order, plan->epoch_end, micro->step, micro->micro);
    uint64_t first = whole.first, stride = whole.stride;
    uint64_t skipped = first < micro->begin ? (micro->begin - first + stride - 1) / stride : 0;
    uint64_t limit = first < micro->end ? (micro->end - first + stride - 1) / stride : 0;
    limit = bytes_min(limit, whole.count);
    *ret_first = first + skipped * stride;
    *ret_stride = stride;
    return limit > skipped ? (uint32_t)(limit - skipped) : 0;
}
