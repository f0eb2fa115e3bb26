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

enum { EPOCHS_CHANGES_MAX = 16, EPOCHS_MULTIPLIER_MAX = 1 << 20 };

struct epochs_change {
    uint64_t epoch, multiplier; /* of the initial batch, from this epoch on */
};

/* Zeroed changes: the batch never grows. */
struct epochs {
    uint64_t samples; /* per epoch */
    uint64_t initial_batch;
    struct epochs_change changes[EPOCHS_CHANGES_MAX];
    uint32_t changes_count;
};

/* Parses a schedule into changes. -EINVAL unless the epochs are positive and ascending. */
int epochs_parse(const char *text, struct epochs *epochs, struct err *err);

uint64_t epochs_batch_multiplier(const struct epochs *epochs, uint64_t epoch);
uint64_t epochs_steps_in_epoch(const struct epochs *epochs, uint64_t epoch);
/* The number of steps before the epoch; UINT64_MAX on overflow. */
uint64_t epochs_first_step(const struct epochs *epochs, uint64_t epoch);
/* Both count from 0. Every epoch must have at least one step. */
uint64_t epochs_epoch_at_step(const struct epochs *epochs, uint64_t step);
/* The first later epoch with a different batch size; UINT64_MAX: none. */
uint64_t epochs_next_change(const struct epochs *epochs, uint64_t epoch);

#endif
