/*
 * metrics — writes a run's metrics: metrics.jsonl, one JSON object per line with rising steps
 * and no duplicates, and optionally TensorBoard event files.
 *
 * A run that resumes at step s first truncates the file after its last line with a step <= s
 * (except the evaluation after s, if the checkpoint was written before it). This removes lines
 * that a killed run wrote after its last checkpoint, which the resumed run will repeat.
 */
#ifndef MILLRACE_TRAINER_REPORT_METRICS_H
#define MILLRACE_TRAINER_REPORT_METRICS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/report/report.h"

struct metrics;

/* The point from which a run resumes. */
struct metrics_resume {
    uint64_t step;     /* 0: the beginning */
    bool is_evaluated; /* after that step; if not, the run repeats that evaluation if it is due */
};

struct metrics_options {
    const char *path;        /* of metrics.jsonl, in an existing folder */
    const char *tensorboard; /* folder of event files; "": none */
    struct metrics_resume resume;
};

/* Removes lines that the run will repeat, and an incomplete last line. */
int metrics_open(struct io *io, const struct metrics_options *options, struct metrics **ret_metrics,
                 struct err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */
/* Writes a line for TRAINER_STEP and TRAINER_EVALUATED; ignores other events. */
int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err);

#endif
