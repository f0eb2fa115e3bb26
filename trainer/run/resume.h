/*
 * resume — finds the checkpoint to resume from, checks that the run may continue from it, and
 * restores the state.
 */
#ifndef MILLRACE_TRAINER_RUN_RESUME_H
#define MILLRACE_TRAINER_RUN_RESUME_H

#include "trainer/run/run.h"

/* Call in this order. All are collective except resume_check_cursor. */

/* Opens the checkpoint to resume from, if there is one not excluded by run->damaged; it is the same
 * on all ranks. Sets run->step and restores the batch of run->given. *ret_reader stays NULL if the
 * run starts anew.
 *
 * - -ESTALE: the ranks have no checkpoint in common.
 * - -EEXIST: the run must not resume, or would leave later steps in the folder, from which the next
 *   resume would start.
 * - -EINVAL: a configuration change affects the sample order or the model. Other differences are
 *   only reported. */
int resume_find(struct run *run, struct ckpt_reader **ret_reader, char path[IO_PATH_BYTES_MAX],
                struct err *err);

/* Call once this run owns the folder: checks that the newest checkpoint is still the one that was
 * found. -EAGAIN if another run saved in between. */
int resume_check_newest(const struct run *run, struct err *err);

/* Checks that the loader's data and order, the class names and the tokenizer match the saved cursor
 * and state. -EINVAL: the configuration is at fault; -ESTALE: the data. Both name what differs. */
int resume_check_cursor(const struct run *run, const struct cursor *cursor,
                        const struct json_t *state, const char *path, struct err *err);

/* Restores weights, moments, the update count and the last evaluation. -EBADMSG on all ranks if any
 * rank found damaged tensors: run->damaged then records the step, the arrays are undefined, and the
 * run must be reopened. */
int resume_restore(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);

#endif
