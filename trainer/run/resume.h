/*
 * resume — finds the checkpoint to resume from, checks that the run may continue from it, and
 * restores the state.
 */
#ifndef MILLRACE_TRAINER_RUN_RESUME_H
#define MILLRACE_TRAINER_RUN_RESUME_H

#include "trainer/run/run.h"

/* Call these functions in this order. All except resume_check_cursor are collective. */

/* Opens the checkpoint to resume from: the same on all ranks, and not excluded by
 * run->saving.damaged. Sets run->step and restores the batch of run->given. If there is no
 * checkpoint, *ret_reader stays NULL and the run starts at step 0.
 *
 * - -ESTALE: the ranks have no checkpoint in common.
 * - -EEXIST: the run must not resume, or the folder would keep later steps, from which the next
 *   resume would start.
 * - -EINVAL: a configuration change affects the sample order or the model. Other changes are
 *   only reported. */
int resume_find(struct run *run, struct ckpt_reader **ret_reader, char path[IO_PATH_BYTES_MAX],
                struct err *err);

/* Call once this run owns the folder: checks that the newest checkpoint is still the one found.
 * -EAGAIN if another run has saved since. */
int resume_check_newest(const struct run *run, struct err *err);

/* Checks that the loader's data and order, the class names and the tokenizer match the saved
 * cursor and state. -EINVAL: the configuration differs; -ESTALE: the data differs. */
int resume_check_cursor(const struct run *run, const struct cursor *cursor,
                        const struct json_t *state, const char *path, struct err *err);

/* Restores weights, moments, policies and the last evaluation. -EBADMSG on all ranks if any rank
 * found damaged tensors: run->saving.damaged then records the step, the arrays are undefined,
 * and the run must be reopened. */
int resume_restore(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);

#endif
