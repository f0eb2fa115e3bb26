/*
 * micro — a batch of the loader as a model's input: always the full micro-batch, absent items with targets of -1.
 */
#ifndef MILLRACE_TRAINER_MICRO_H
#define MILLRACE_TRAINER_MICRO_H

#include "trainer/run.h"

/* input borrows from the batch and from the run's padded buffers until the next call. *ret_valid: items (tokens) with a
 * target. -EBADMSG where a label is beyond the model's classes, or absent. */
int micro_input(struct run *run, const struct batch *batch, struct model_input *ret_input,
                uint64_t *ret_valid, struct err *err);

/* Adds the losses and hits that model_forward left in run->losses and run->correct; the ops must be in sync. */
void micro_add_result(const struct run *run, const struct model_input *input, struct step_totals *totals);

#endif
