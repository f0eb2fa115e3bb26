/*
 * activation_plan — assigns device memory to the activations that the blocks of a stage store for
 * their backward passes.
 *
 * Most blocks have their own slot. Offloaded blocks pass through a small ring of slots on the way
 * to pinned memory and back (offload.h). Recomputed blocks share one slot.
 *
 *     slots      | own | ... | own | ring | shared by recomputed blocks |
 *
 * Frozen blocks at the start of a model have no backward pass; their forward passes write to the
 * first slot before others use it.
 *
 * Every recompute_every-th of the other blocks is recomputed, and every offload_every-th of those
 * left is offloaded. Blocks are counted from the start of the model, so the choice does not depend
 * on the stages.
 */
#ifndef MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H
#define MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H

#include <stdint.h>

struct activation_plan {
    uint32_t recompute_every, offload_every; /* 0: none */
    uint32_t first_block, blocks_count;      /* of the stage */
    uint32_t frozen_count;                   /* frozen blocks at the start of the model */
};

enum activation_kind {
    ACTIVATION_OWN,
    ACTIVATION_OFFLOADED,
    ACTIVATION_RECOMPUTED,
    ACTIVATION_FROZEN
};

struct activation_slot {
    enum activation_kind kind;
    uint32_t slot;
    uint32_t item; /* ACTIVATION_OFFLOADED: index among the stage's offloaded blocks */
};

uint32_t activation_slots_count(const struct activation_plan *plan);
uint32_t activation_offloaded_count(const struct activation_plan *plan);
/* block: index in the stage. */
struct activation_slot activation_slot_of(const struct activation_plan *plan, uint32_t block);

#endif
