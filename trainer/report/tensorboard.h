/*
 * tensorboard — the numbers of metrics.jsonl as TensorBoard's event files.
 *
 * Below the folder stand two runs, as TensorBoard calls them: `train` with the lines of progress,
 * and `validation` with the evaluations, whose tags lack their "val_", so that both losses lie in
 * one chart.
 *
 * A run that resumes writes new files beside the old ones. Each begins with a session start at the
 * first step that is to come: TensorBoard then forgets what older files have of that step and later
 * ones, so that what a killed run had written beyond its last checkpoint shows once. The two runs'
 * starts differ where a resumed step is evaluated again.
 *
 * Threads: one owner. Local files only.
 */
#ifndef MILLRACE_TRAINER_REPORT_TENSORBOARD_H
#define MILLRACE_TRAINER_REPORT_TENSORBOARD_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/report/scalars.h"

struct tensorboard;

/* The first steps that are to come: of a line of progress, of an evaluation. */
struct tensorboard_start {
    uint64_t step, evaluation;
};

/* Gives it. The folder is made with its parents. */
int tensorboard_open(struct io *io, const char *folder, struct tensorboard_start start,
                     struct tensorboard **ret_tensorboard, struct err *err);
void tensorboard_close(struct tensorboard *tensorboard); /* NULL is fine */
/* scalars: those of the report, whose event is TRAINER_STEP or TRAINER_EVALUATED. Blocks; allocates
 * nothing. */
int tensorboard_write(struct tensorboard *tensorboard, const struct trainer_report *report,
                      const struct scalar *scalars, size_t count, uint64_t wall_ns,
                      struct err *err);

#endif
