/*
 * tensorboard — writes the numbers of metrics.jsonl as TensorBoard event files.
 *
 * The folder has two TensorBoard runs: `train` for progress lines and `validation` for evaluations.
 * Validation tags omit "val_", so both losses share a chart.
 *
 * A resumed run writes new files. Each begins with a session start at its first step; TensorBoard
 * then discards that step and later ones from older files.
 *
 * Owner thread. Local files only.
 */
#ifndef MILLRACE_TRAINER_REPORT_TENSORBOARD_H
#define MILLRACE_TRAINER_REPORT_TENSORBOARD_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/report/scalars.h"

struct tensorboard;

/* The first steps that the run may write. */
struct tensorboard_start {
    uint64_t progress_step, evaluation_step;
};

int tensorboard_open(struct io *io, const char *folder, struct tensorboard_start start,
                     struct tensorboard **ret_tensorboard, struct err *err);
void tensorboard_close(struct tensorboard *tensorboard); /* NULL is fine */
/* scalars: of a TRAINER_PROGRESS or TRAINER_EVALUATED report. Blocks; allocates nothing. */
int tensorboard_write(struct tensorboard *tensorboard, const struct trainer_report *report,
                      const struct scalar *scalars, size_t count, uint64_t wall_ns,
                      struct err *err);

#endif
