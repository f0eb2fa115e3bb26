#include "cli/report/run_metrics.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };
#define WALL_SECONDS_MAX 1e10 /* the year 2286; its nanoseconds fit in 64 bits */

const char *run_series_key(enum run_series_kind kind)
{
    static const char *const keys[RUN_SERIES_COUNT] = {
        "loss",
        "val_loss",
        "val_accuracy",
        "lr",
        "gradient_norm",
        "samples_per_second",
        "tokens_per_second",
        "data_wait_share",
        "checkpoint_wait_share",
        "peak_share",
        "device_utilization_share",
    };
    return keys[kind];
}

static void merge_pairs(struct run_series *series)
{
    for (size_t i = 0; i < series->count / 2; i++) {
        const struct chart_point *pair = &series->points[2 * i];
        series->points[i] = (struct chart_point){pair[1].x, (pair[0].y + pair[1].y) / 2};
    }
    series->count /= 2;
    series->lines_per_point *= 2;
}

static void finish_point(struct run_series *series)
{
    if (series->sum_lines == 0)
        return;
    series->points[series->count++] =
        (struct chart_point){.x = series->sum.x, .y = series->sum.y / (double)series->sum_lines};
    series->sum = (struct chart_point){0};
    series->sum_lines = 0;
    if (series->count == RUN_POINTS_MAX)
        merge_pairs(series);
}

static void add_value(struct run_series *series, double step, double value)
{
    series->sum.x = step;
    series->sum.y += value;
    series->last_value = value;
    if (++series->sum_lines >= series->lines_per_point)
        finish_point(series);
}

static int add_line(struct run_metrics *metrics, const char *line, size_t bytes, const char *path,
                    uint64_t offset, struct err *err)
{
    struct json_t *root;
    uint64_t step;
    double wall_seconds;
    int status = jsonx_parse(line, bytes, path, (int64_t)offset, &root, err);
    if (status)
        return status;
    status = jsonx_get_u64(root, "step", &step, path, err);
    if (!status && metrics->lines_count > 0 && step < metrics->last_step)
        status = err_set(err, -EBADMSG, "the steps of the metrics decrease to %llu",
                         (unsigned long long)step);
    if (status) {
        err_at(err, path, (int64_t)offset);
        jsonx_free(root);
        return status;
    }
    for (int kind = 0; kind < RUN_SERIES_COUNT; kind++) {
        const struct json_t *node = jsonx_get(root, run_series_key(kind));
        double value;
        if (node) /* null is a non-finite number */
            add_value(&metrics->series[kind], (double)step, jsonx_f64(node, &value) ? NAN : value);
    }
    if (jsonx_f64(jsonx_get(root, "wall_seconds"), &wall_seconds) == 0 && wall_seconds > 0 &&
        wall_seconds < WALL_SECONDS_MAX) {
        if (metrics->first_wall_seconds <= 0)
            metrics->first_wall_seconds = wall_seconds;
        metrics->last_wall_seconds = wall_seconds;
    }
    (void)jsonx_u64(jsonx_get(root, "epoch"), &metrics->last_epoch);
    metrics->last_step = step;
    metrics->lines_count++;
    jsonx_free(root);
    return 0;
}

/* Parses the complete lines of text, from `offset` of the file. *ret_used: their length. */
static int add_lines(struct run_metrics *metrics, const char *text, size_t bytes, const char *path,
                     uint64_t offset, size_t *ret_used, struct err *err)
{
    size_t used = 0;
    const char *end;
    int status = 0;
    while (!status && used < bytes && (end = memchr(text + used, '\n', bytes - used)) != NULL) {
        size_t line_bytes = (size_t)(end - text) - used;
        status = add_line(metrics, text + used, line_bytes, path, offset + used, err);
        used += line_bytes + 1;
    }
    *ret_used = used;
    if (!status && bytes - used > RUN_LINE_BYTES_MAX) {
        status = err_set(err, -EBADMSG, "a line of the metrics is too long");
        err_at(err, path, (int64_t)(offset + used));
        err_expected(err, "at most %d bytes", RUN_LINE_BYTES_MAX);
    }
    return status;
}

static int read_all(struct io *io, struct io_queue *queue, struct io_file *file, const char *path,
                    char *chunk, struct run_metrics *metrics, struct err *err)
{
    uint64_t file_bytes = io->ops->file_size(file), offset = 0;
    size_t carried_bytes = 0, used = 0;
    int status = 0;
    while (!status && offset < file_bytes) {
        size_t bytes = bytes_min(file_bytes - offset, CHUNK_BYTES - carried_bytes);
        status = io_read_exact(queue, io, file, path, offset, chunk + carried_bytes, bytes, err);
        if (!status)
            status = add_lines(metrics, chunk, carried_bytes + bytes, path, offset - carried_bytes,
                               &used, err);
        if (status)
            break;
        offset += bytes;
        carried_bytes = carried_bytes + bytes - used;
        memmove(chunk, chunk + used, carried_bytes);
    }
    return status;
}

int run_metrics_read(struct io *io, const char *path, struct run_metrics **ret_metrics,
                     struct err *err)
{
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    char *chunk = malloc(CHUNK_BYTES);
    struct run_metrics *metrics = calloc(1, sizeof *metrics);
    int status = chunk && metrics ? 0 : err_set(err, -ENOMEM, "out of memory for metrics");
    if (!status)
        status = io->ops->file_open(io, path, &file, err);
    if (!status)
        status = io->ops->queue_open(io, 1, &queue, err);
    for (int kind = 0; kind < RUN_SERIES_COUNT && !status; kind++)
        metrics->series[kind].lines_per_point = 1;
    if (!status)
        status = read_all(io, queue, file, path, chunk, metrics, err);
    for (int kind = 0; kind < RUN_SERIES_COUNT && !status; kind++)
        finish_point(&metrics->series[kind]);
    if (queue)
        io->ops->queue_close(queue);
    if (file)
        io->ops->file_close(file);
    free(chunk);
    if (status)
        free(metrics);
    else
        *ret_metrics = metrics;
    return status;
}
