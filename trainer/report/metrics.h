/*
 * metrics — writes a run's metrics: metrics.jsonl, one JSON object per line in ascending order of
 * steps, and optionally TensorBoard event files.
 *
 * A resume at step s first truncates the file after its last line with a step <= s, excluding the
 * evaluation of s if the checkpoint was written before it.
 */
#ifndef MILLRACE_TRAINER_REPORT_METRICS_H
#define MILLRACE_TRAINER_REPORT_METRICS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/report/report.h"

struct metrics;

struct metrics_resume {
    uint64_t step;     /* 0: a new run */
    bool is_evaluated; /* the checkpoint contains the evaluation of that step */
};

struct metrics_options {
    const char *path;        /* of metrics.jsonl, in an existing folder */
    const char *tensorboard; /* folder of event files; "": none */
    struct metrics_resume resume;
};

int metrics_open(struct io *io, const struct metrics_options *options, struct metrics **ret_metrics,
                 struct err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */
/* Ignores events other than TRAINER_PROGRESS and TRAINER_EVALUATED. */
int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err);

#endif
