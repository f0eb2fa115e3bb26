/*
 * metrics — metrics.jsonl: one JSON object a line, by rising step, without forks.
 *
 * A run that resumes at step s first cuts the file after its last line of a step <= s: what a killed run had written beyond
 * its last checkpoint is written again, not twice.
 */
#ifndef MILLRACE_TRAINER_METRICS_H
#define MILLRACE_TRAINER_METRICS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/trainer.h"

struct metrics;

/* resume_step: lines of later steps, and a torn last one, are cut; 0 starts anew. Gives the metrics. */
int metrics_open(struct io *io, const char *path, uint64_t resume_step, struct metrics **ret_metrics,
                 struct err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */
/* A line for TRAINER_STEP and TRAINER_EVALUATED; nothing for other events. */
int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err);

#endif
