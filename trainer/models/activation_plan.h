/*
 * activation_plan — where the blocks of a stage store the activations for their backward passes.
 *
 * Most blocks have a separate place on the device. Offloaded blocks pass through a small ring of
 * places on the way to pinned memory and back (offload.h). Recomputed blocks share one place.
 *
 *     places     | separate | ... | separate | ring | shared by recomputed blocks |
 *
 * The frozen blocks at the start of a model have no backward pass and store nothing: their forward
 * passes write to the first place, before the other blocks use it.
 *
 * Of the remaining blocks every recompute_every-th is recomputed; of the rest every
 * offload_every-th is offloaded. Blocks are numbered from the start of the model, so the choice
 * does not depend on the stages.
 */
#ifndef MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H
#define MILLRACE_TRAINER_MODELS_ACTIVATION_PLAN_H

#include <stdint.h>

/* Immutable. */
struct activation_plan {
    uint32_t recompute_every, offload_every; /* 0: none */
    uint32_t first_block, blocks_count;      /* of the stage */
    uint32_t frozen_count;                   /* first blocks of the model, without backward pass */
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
    uint32_t item;  /* ACTIVATION_OFFLOADED: its index among the stage's offloaded blocks */
};

uint32_t activation_places_count(const struct activation_plan *plan); /* on the device */
uint32_t activation_offloaded_count(const struct activation_plan *plan);
/* block: index in the stage. */
struct activation_place activation_place_of(const struct activation_plan *plan, uint32_t block);

#endif
