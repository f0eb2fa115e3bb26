/*
 * resume — finds and checks the checkpoint to resume from, and restores its state. Call the
 * functions in order; all except resume_check_cursor are collective.
 */
#ifndef MILLRACE_TRAINER_RUN_RESUME_H
#define MILLRACE_TRAINER_RUN_RESUME_H

#include "trainer/run/run.h"

/* Opens the same checkpoint on all ranks; without one, *ret_reader stays NULL. Sets run->step and
 * restores the batch of run->original_config.
 *
 * - -ESTALE: the ranks have no checkpoint in common.
 * - -EEXIST: the options forbid resuming, or the folder has later checkpoints.
 * - -EINVAL: a configuration change affects the sample order or the model. */
int resume_find(struct run *run, struct ckpt_reader **ret_reader, char path[IO_PATH_BYTES_MAX],
                struct err *err);

/* Call once this run owns the folder. -EAGAIN if another run has saved since resume_find. */
int resume_check_newest(const struct run *run, struct err *err);

/* Compares data, order, class names and tokenizer with the saved ones. -EINVAL: the configuration
 * differs; -ESTALE: the data differs. */
int resume_check_cursor(const struct run *run, const struct cursor *cursor,
                        const struct json_t *state, const char *path, struct err *err);

/* Restores weights, moments, policies and the last evaluation. -EBADMSG on all ranks if one finds
 * damaged tensors. Then run->saving.damaged_steps excludes the step; reopen the run. */
int resume_restore(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);

#endif
