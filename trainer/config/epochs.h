/*
 * epochs — maps steps to epochs if the global batch grows by epoch. Pure arithmetic.
 *
 *     "4:2, 8:4"       epochs 0 to 3: batch.global; epochs 4 to 7: twice as many micro-batches per
 *                      update; from epoch 8: four times as many
 *
 * An epoch consists of whole batches; the remaining samples are dropped.
 */
#ifndef MILLRACE_TRAINER_CONFIG_EPOCHS_H
#define MILLRACE_TRAINER_CONFIG_EPOCHS_H

#include "base/err.h"

#include <stdint.h>

enum { EPOCHS_CHANGES_MAX = 16, EPOCHS_TIMES_MAX = 1 << 20 };

struct epochs_change {
    uint64_t epoch, times; /* from this epoch on, multiply the batch by times */
};

/* Zeroed changes: the batch never grows. */
struct epochs {
    uint64_t samples; /* per epoch */
    uint64_t global;  /* initial batch */
    struct epochs_change changes[EPOCHS_CHANGES_MAX];
    uint32_t changes_count;
};

/* Parses the changes of a schedule; "": none. -EINVAL if the format is wrong or the epochs are not
 * positive and ascending. */
int epochs_parse(const char *text, struct epochs *epochs, struct err *err);

uint64_t epochs_times(const struct epochs *epochs, uint64_t epoch);
uint64_t epochs_steps(const struct epochs *epochs, uint64_t epoch);
/* The number of steps before the epoch; UINT64_MAX on overflow. */
uint64_t epochs_first_step(const struct epochs *epochs, uint64_t epoch);
/* Returns the epoch of a step; both count from 0. Every epoch must have at least one step. */
uint64_t epochs_at(const struct epochs *epochs, uint64_t step);
/* The first later epoch with a different batch size; UINT64_MAX: none. */
uint64_t epochs_next_change(const struct epochs *epochs, uint64_t epoch);

#endif
