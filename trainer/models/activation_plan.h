/*
 * activation_plan — where the blocks of a stage keep what their backward passes need.
 *
 * Most keep it in a place of their own on the device. A block that is offloaded passes through one
 * place of a small ring on its way to pinned memory and back (offload.h). One that is recomputed
 * keeps nothing: all of those share a place, where the backward pass makes it again.
 *
 *     places     | of its own | ... | of its own | the ring | the one of those recomputed |
 *
 * The first blocks of a model have no backward pass where all up to them is frozen. They keep
 * nothing, and as the others come behind them, the first place serves.
 *
 * Of the rest every recompute_every-th block is recomputed, and of the others every
 * offload_every-th is offloaded. Blocks count from the first of the model, so that these are the
 * same whatever the stages. Pure arithmetic.
 */
#ifndef MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H
#define MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H

#include <stdint.h>

/* Immutable. */
struct activation_plan {
    uint32_t recompute_every, offload_every; /* 0: none */
    uint32_t first_block, blocks_count;      /* the stage's */
    uint32_t frozen_count; /* of the model's first blocks: they have no backward pass */
};

enum activation_kind {
    ACTIVATION_OWN,
    ACTIVATION_OFFLOADED,
    ACTIVATION_RECOMPUTED,
    ACTIVATION_FROZEN
};

struct activation_place {
    enum activation_kind kind;
    uint32_t place; /* on the device */
    uint32_t item;  /* ACTIVATION_OFFLOADED: how many of the stage's are before it */
};

uint32_t activation_places_count(const struct activation_plan *plan); /* on the device */
uint32_t
activation_offloaded_count(const struct activation_plan *plan); /* blocks that are offloaded */
struct activation_place activation_place_of(const struct activation_plan *plan,
                                            uint32_t block); /* block: of the stage */

#endif
