/*
 * run_metrics — a run's metrics.jsonl as series over steps, in bounded memory.
 *
 * When a series reaches RUN_POINTS_MAX points, each pair is replaced by its mean, so that a point
 * represents twice as many lines.
 */
#ifndef MILLRACE_CLI_REPORT_RUN_METRICS_H
#define MILLRACE_CLI_REPORT_RUN_METRICS_H

#include "cli/report/page_chart.h"
#include "io/io.h"

enum { RUN_POINTS_MAX = 1024, RUN_LINE_BYTES_MAX = 64 << 10 };

enum run_series_kind {
    RUN_LOSS,
    RUN_VAL_LOSS,
    RUN_VAL_ACCURACY,
    RUN_LR,
    RUN_GRADIENT_NORM,
    RUN_SAMPLES_PER_SECOND,
    RUN_TOKENS_PER_SECOND,
    RUN_DATA_WAIT,
    RUN_CHECKPOINT_WAIT,
    RUN_PEAK,
    RUN_UTILIZATION,
    RUN_SERIES_COUNT
};

/* The values are those in the file. Owner thread. */
struct run_series {
    struct chart_point points[RUN_POINTS_MAX];
    size_t count;
    uint64_t lines_per_point; /* a power of two */
    struct chart_point sum;   /* of the lines not in a point yet */
    uint64_t sum_lines;
    double last_value; /* NaN if not finite */
};

struct run_metrics {
    struct run_series series[RUN_SERIES_COUNT];
    uint64_t lines_count, last_step, last_epoch;
    double first_wall_seconds, last_wall_seconds; /* since 1970 */
};

/* The key, such as "val_loss". */
const char *run_series_key(enum run_series_kind kind);

/* Ignores an incomplete last line: a running job may be writing it. -EBADMSG with the offset of
 * an invalid line. free() the result. */
int run_metrics_read(struct io *io, const char *path, struct run_metrics **ret_metrics,
                     struct err *err);

#endif
