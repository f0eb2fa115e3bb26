/*
 * activation_plan — see activation_plan.h.
 */
#include "trainer/models/activation_plan.h"

#include "trainer/models/offload.h"

#include <stdbool.h>

static uint32_t not_recomputed_count(const struct activation_plan *plan, uint32_t blocks)
{
    return plan->recompute_every > 0 ? blocks - blocks / plan->recompute_every : blocks;
}

/* The number of earlier blocks of the model that are neither recomputed nor frozen. */
static uint32_t saved_blocks_before(const struct activation_plan *plan, uint32_t block)
{
    uint32_t frozen = plan->frozen_count;
    return block > frozen ? not_recomputed_count(plan, block) - not_recomputed_count(plan, frozen)
                          : 0;
}

static uint32_t offloaded_blocks_before(const struct activation_plan *plan, uint32_t block)
{
    return plan->offload_every > 0 ? saved_blocks_before(plan, block) / plan->offload_every : 0;
}

static uint32_t own_slots_before(const struct activation_plan *plan, uint32_t block)
{
    return saved_blocks_before(plan, block) - offloaded_blocks_before(plan, block);
}

static uint32_t stage_own_slots(const struct activation_plan *plan)
{
    return own_slots_before(plan, plan->first_block + plan->blocks_count) -
           own_slots_before(plan, plan->first_block);
}

uint32_t activation_offloaded_count(const struct activation_plan *plan)
{
    return offloaded_blocks_before(plan, plan->first_block + plan->blocks_count) -
           offloaded_blocks_before(plan, plan->first_block);
}

uint32_t activation_slots_count(const struct activation_plan *plan)
{
    uint32_t own = stage_own_slots(plan), items = activation_offloaded_count(plan);
    uint32_t end = plan->first_block + plan->blocks_count;
    uint32_t first =
        plan->frozen_count > plan->first_block ? plan->frozen_count : plan->first_block;
    bool recomputes = first + own + items < end;
    uint32_t count = own + offload_slots_count(items) + recomputes;
    return count > 0 ? count : plan->blocks_count > 0;
}

struct activation_slot activation_slot_of(const struct activation_plan *plan, uint32_t block)
{
    uint32_t first = plan->first_block, at = first + block;
    uint32_t own = own_slots_before(plan, at) - own_slots_before(plan, first);
    uint32_t item = offloaded_blocks_before(plan, at) - offloaded_blocks_before(plan, first);
    if (at < plan->frozen_count)
        return (struct activation_slot){ACTIVATION_FROZEN, 0, 0};
    if (saved_blocks_before(plan, at + 1) == saved_blocks_before(plan, at))
        return (struct activation_slot){ACTIVATION_RECOMPUTED, activation_slots_count(plan) - 1, 0};
    if (offloaded_blocks_before(plan, at + 1) > offloaded_blocks_before(plan, at))
        return (struct activation_slot){ACTIVATION_OFFLOADED,
                                        stage_own_slots(plan) + item % OFFLOAD_SLOTS, item};
    return (struct activation_slot){ACTIVATION_OWN, own, 0};
}
