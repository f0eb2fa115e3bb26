/*
 * epochs — which step belongs to which epoch, where the global batch grows by epoch. Pure
 * arithmetic.
 *
 *     "4:2, 8:4"       epochs 0 to 3 as batch.global says, 4 to 7 twice as many micro-batches an
 *                      update, from 8 on four times as many
 *
 * An epoch has as many steps as whole batches; what is left of its samples is dropped, as without a
 * schedule.
 */
#ifndef MILLRACE_TRAINER_CONFIG_EPOCHS_H
#define MILLRACE_TRAINER_CONFIG_EPOCHS_H

#include "base/err.h"

#include <stdint.h>

enum { EPOCHS_CHANGES_MAX = 16, EPOCHS_TIMES_MAX = 1 << 20 };

struct epochs_change {
    uint64_t epoch, times; /* from this epoch on, so many times the batch */
};

/* Immutable once filled. Zeroed changes: the batch never grows. */
struct epochs {
    uint64_t samples; /* of an epoch */
    uint64_t global;  /* of the batch before it grows */
    struct epochs_change changes[EPOCHS_CHANGES_MAX];
    uint32_t changes_count;
};

/* The changes of a schedule as above; "": none. -EINVAL where it is not of that form, or epochs do
 * not rise from 1 on. */
int epochs_parse(const char *text, struct epochs *epochs, struct err *err);

uint64_t epochs_times(const struct epochs *epochs, uint64_t epoch);
uint64_t epochs_steps(const struct epochs *epochs, uint64_t epoch); /* of that epoch */
/* Steps before the epoch; UINT64_MAX where they are beyond counting. */
uint64_t epochs_first_step(const struct epochs *epochs, uint64_t epoch);
/* The epoch that a step belongs to, the first step being 0. Every epoch has a step. */
uint64_t epochs_at(const struct epochs *epochs, uint64_t step);
/* The first epoch after this one whose batch is another; UINT64_MAX: none. */
uint64_t epochs_next_change(const struct epochs *epochs, uint64_t epoch);

#endif
