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
    uint64_t epoch_end = options->drop_last ? samples / global * global : samples;
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
    *plan = (struct plan){.batching = options->batching,
                          .samples = samples,
                          .epoch_end = epoch_end,
                          .positions_left =
                              options->positions_max ? options->positions_max : UINT64_MAX,
                          .epochs_left = options->epochs_max ? options->epochs_max : UINT64_MAX,
                          .epoch = options->epoch,
                          .position = options->position};
    return 0;
}

uint64_t plan_steps(const struct plan *plan)
{
    return (plan->epoch_end + plan->batching.global - 1) / plan->batching.global;
}

/* Finds the end of the current step, [plan->position, *ret_end). False if no positions are left. */
static bool find_step(struct plan *plan, uint64_t *ret_end)
{
    if (plan->positions_left == 0)
        return false;
    if (plan->position >= plan->epoch_end) {
        if (plan->epochs_left <= 1 || plan->epoch == UINT32_MAX)
            return false;
        if (plan->epochs_left != UINT64_MAX)
            plan->epochs_left--;
        plan->epoch++;
        plan->position = 0;
    }
    uint64_t step_end = (plan->position / plan->batching.global + 1) * plan->batching.global;
    uint64_t end = bytes_min(step_end, plan->epoch_end);
    *ret_end = plan->position + bytes_min(end - plan->position, plan->positions_left);
    return true;
}

bool plan_next(struct plan *plan, struct plan_micro *ret_micro)
{
    uint64_t end;
    if (!find_step(plan, &end))
        return false;
    uint64_t owned_count = batching_owned_count(&plan->batching);
    bool ends_epoch = end == plan->epoch_end && plan->epoch != UINT32_MAX;
    *ret_micro =
        (struct plan_micro){.epoch = plan->epoch,
                            .step = plan->position / plan->batching.global,
                            .micro = batching_owned_micro(&plan->batching, plan->next_owned),
                            .begin = plan->position,
                            .end = end,
                            .last_of_step = plan->next_owned + 1 == owned_count,
                            .next_epoch = ends_epoch ? plan->epoch + 1 : plan->epoch,
                            .next_position = ends_epoch ? 0 : end};
    plan->next_owned++;
    if (ret_micro->last_of_step) {
        plan->next_owned = 0;
        if (plan->positions_left != UINT64_MAX)
            plan->positions_left -= end - plan->position;
        plan->position = end;
    }
    return true;
}

uint32_t plan_item_positions(const struct plan *plan, const struct plan_micro *micro,
                             uint64_t *ret_first, uint64_t *ret_stride)
{
    uint64_t micros = batching_micros(&plan->batching);
    uint64_t first = batching_position(&plan->batching, micro->step, micro->micro, 0);
    uint64_t skipped = first < micro->begin ? (micro->begin - first + micros - 1) / micros : 0;
    uint64_t limit = first < micro->end ? (micro->end - first + micros - 1) / micros : 0;
    limit = bytes_min(limit, plan->batching.micro);
    *ret_first = first + skipped * micros;
    *ret_stride = micros;
    return limit > skipped ? (uint32_t)(limit - skipped) : 0;
}
