/*
 * resume — where a run goes on: the checkpoint to start from, what must be as it was, and the state
 * put back.
 */
#ifndef MILLRACE_TRAINER_RUN_RESUME_H
#define MILLRACE_TRAINER_RUN_RESUME_H

#include "trainer/run/run.h"

/* In this order. Collective, but for the comparison of the cursor. */

/* Opens the checkpoint to go on from, if there is one that is not run->damaged, the same on all
 * ranks, and sets run->step, and run->given's batch to what it was; *ret_reader stays NULL where
 * the run starts anew. -ESTALE where the ranks have none in common, -EEXIST where it must not go on
 * (or would leave later steps of the folder behind, which the next resume would take), -EINVAL
 * where the configuration changed in what decides order or model; other differences are said. */
int resume_find(struct run *run, struct ckpt_reader **ret_reader, char path[IO_PATH_BYTES_MAX],
                struct err *err);

/* Once the folder is this run's own: is the newest checkpoint still the one that was found? -EAGAIN
 * where another run saved in between. */
int resume_check_newest(const struct run *run, struct err *err);

/* The data and the order that the loader found are those of the cursor, which the state holds, and
 * so are class names and the tokenizer. -EINVAL: the configuration is at fault, -ESTALE: the data;
 * both name what differs. */
int resume_check_cursor(const struct run *run, const struct cursor *cursor,
                        const struct json_t *state, const char *path, struct err *err);

/* Weights, moments, the count of updates, the last evaluation. -EBADMSG on all ranks where one
 * found the tensors damaged, which run->damaged then says: the arrays hold anything, and the run
 * must be opened anew. */
int resume_restore(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);

#endif
