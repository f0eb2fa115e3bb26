/*
 * metrics — where a run's numbers go: metrics.jsonl, one JSON object a line, by rising step,
 * without forks; and TensorBoard's event files where they are wanted.
 *
 * A run that resumes at step s first cuts the file after its last line of a step <= s (the
 * evaluation after s excepted, where the checkpoint was written before it): what a killed run had
 * written beyond its last checkpoint is written again, not twice.
 */
#ifndef MILLRACE_TRAINER_REPORT_METRICS_H
#define MILLRACE_TRAINER_REPORT_METRICS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/report/report.h"

struct metrics;

/* What a run goes on from. */
struct metrics_resume {
    uint64_t step;     /* 0: the beginning */
    bool is_evaluated; /* after that step; else the evaluation, if one is due, comes again */
};

struct metrics_options {
    const char *path;        /* of metrics.jsonl, in a folder that is there */
    const char *tensorboard; /* folder of the events; "": none */
    struct metrics_resume resume;
};

/* Lines of what will come again, and a torn last one, are cut. Gives the metrics. */
int metrics_open(struct io *io, const struct metrics_options *options, struct metrics **ret_metrics,
                 struct err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */
/* A line for TRAINER_STEP and TRAINER_EVALUATED; nothing for other events. */
int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err);

#endif
