/*
 * metrics — metrics.jsonl: one JSON object a line, by rising step, without forks.
 *
 * A run that resumes at step s first cuts the file after its last line of a step <= s (the evaluation after s excepted, where the
 * checkpoint was written before it): what a killed run had written beyond its last checkpoint is written again, not twice.
 */
#ifndef MILLRACE_TRAINER_METRICS_H
#define MILLRACE_TRAINER_METRICS_H

#include "base/err.h"
#include "base/json_writer.h"
#include "io/io.h"
#include "trainer/trainer.h"

struct metrics;

/* What a run goes on from. */
struct metrics_resume {
    uint64_t step;     /* 0: the beginning */
    bool is_evaluated; /* after that step; else the evaluation, if one is due, comes again */
};

/* Lines of what will come again, and a torn last one, are cut. Gives the metrics. */
int metrics_open(struct io *io, const char *path, struct metrics_resume resume, struct metrics **ret_metrics,
                 struct err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */
/* A line for TRAINER_STEP and TRAINER_EVALUATED; nothing for other events. */
int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err);
/* Those that are known, as fields of an object that is open. */
void metrics_write_gauges(struct json_writer *json, const struct trainer_gauges *gauges);

#endif
