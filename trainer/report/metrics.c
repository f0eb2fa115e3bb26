/*
 * metrics — see metrics.h.
 */
#include "trainer/report/metrics.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"
#include "io/local/append_log.h"
#include "trainer/report/scalars.h"
#include "trainer/report/tensorboard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 64 << 10, /* longer than any line written here */
    LINE_BYTES = 2048,
};

struct metrics {
    struct append_log *log;
    struct str line;                 /* reused buffer */
    struct tensorboard *tensorboard; /* NULL: disabled */
};

static bool will_be_repeated(const struct json_t *line, uint64_t step, struct metrics_resume resume)
{
    bool is_evaluation = jsonx_get(line, "val_loss") != NULL;
    return step > resume.step || (step == resume.step && is_evaluation && !resume.is_evaluated);
}

static bool should_keep(const char *line, size_t bytes, struct metrics_resume resume)
{
    struct json_t *root;
    uint64_t step;
    if (jsonx_parse(line, bytes, NULL, 0, &root, NULL))
        return false;
    bool result =
        jsonx_u64(jsonx_get(root, "step"), &step) == 0 && !will_be_repeated(root, step, resume);
    jsonx_free(root);
    return result;
}

/* Returns the end of the last line to keep; 0: none. *ret_unchecked_end: end of the first line,
 * which may be cut off. */
static size_t find_kept_end(const char *text, size_t bytes, bool is_beginning,
                            struct metrics_resume resume, size_t *ret_unchecked_end)
{
    const char *newline = memrchr(text, '\n', bytes);
    size_t end = newline ? (size_t)(newline - text) + 1 : 0; /* excludes an incomplete line */
    while (end > 0) {
        const char *before = memrchr(text, '\n', end - 1);
        if (!before && !is_beginning)
            break;
        size_t begin = before ? (size_t)(before - text) + 1 : 0;
        if (should_keep(text + begin, end - 1 - begin, resume))
            return end;
        end = begin;
    }
    *ret_unchecked_end = end;
    return 0;
}

/* Reads the file backwards: steps ascend, so lines that the run will repeat are at the end. */
static int find_bytes_to_keep(struct io *io, const char *path, struct metrics_resume resume,
                              uint64_t *ret_bytes, struct err *err)
{
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    char *window = NULL;
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t end = io->ops->file_size(file), kept_bytes = 0;
    window = malloc(WINDOW_BYTES);
    if (!window)
        status = err_set(err, -ENOMEM, "out of memory for metrics");
    if (!status)
        status = io->ops->queue_open(io, 1, &queue, err);
    while (!status && kept_bytes == 0 && end > 0) {
        size_t bytes = bytes_min(end, WINDOW_BYTES), unchecked_end = 0;
        uint64_t begin = end - bytes;
        status = io_read_exact(queue, io, file, path, begin, window, bytes, err);
        if (status)
            break;
        size_t found = find_kept_end(window, bytes, begin == 0, resume, &unchecked_end);
        kept_bytes = found ? begin + found : 0;
        /* a line longer than the window was not written here */
        end = begin + (unchecked_end < bytes ? unchecked_end : 0);
    }
    if (queue)
        io->ops->queue_close(queue);
    io->ops->file_close(file);
    free(window);
    if (!status)
        *ret_bytes = kept_bytes;
    return status;
}

static int open_log(struct metrics *metrics, struct io *io, const struct metrics_options *options,
                    struct err *err)
{
    uint64_t keep_bytes = 0;
    if (options->resume.step > 0) {
        int status = find_bytes_to_keep(io, options->path, options->resume, &keep_bytes, err);
        if (status && status != -ENOENT)
            return status;
        if (status)
            err_clear(err); /* the run was moved without its metrics: start a new file */
    }
    int status = append_log_open(options->path, keep_bytes, &metrics->log, err);
    if (!status && str_reserve(&metrics->line, LINE_BYTES))
        status = err_set(err, -ENOMEM, "out of memory for metrics");
    return status;
}

int metrics_open(struct io *io, const struct metrics_options *options, struct metrics **ret_metrics,
                 struct err *err)
{
    const struct metrics_resume *resume = &options->resume;
    const struct tensorboard_start start = {resume->step + 1, resume->step + resume->is_evaluated};
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return err_set(err, -ENOMEM, "out of memory for metrics");
    int status = open_log(metrics, io, options, err);
    if (!status && options->tensorboard[0])
        status = tensorboard_open(io, options->tensorboard, start, &metrics->tensorboard, err);
    if (status)
        metrics_close(metrics);
    else
        *ret_metrics = metrics;
    return status;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    tensorboard_close(metrics->tensorboard);
    append_log_close(metrics->log);
    str_deinit(&metrics->line);
    free(metrics);
}

static int write_line(struct metrics *metrics, const struct trainer_report *report,
                      const struct scalar *scalars, size_t count, uint64_t wall_ns, struct err *err)
{
    struct jsonx_writer w = {.out = &metrics->line};
    str_clear(&metrics->line);
    jsonx_begin_object(&w, NULL);
    jsonx_write_u64(&w, "step", report->step);
    scalars_write(&w, scalars, count);
    jsonx_write_f64(&w, "wall_seconds", clock_seconds(wall_ns));
    jsonx_end_object(&w);
    str_add_text(&metrics->line, "\n");
    if (str_status(&metrics->line)) {
        str_deinit(&metrics->line); /* clears the error for the next line */
        return err_set(err, -ENOMEM, "out of memory for a line of metrics");
    }
    return append_log_add(metrics->log, metrics->line.data, metrics->line.bytes, err);
}

int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err)
{
    struct scalar scalars[SCALARS_MAX];
    size_t count = scalars_from_report(report, scalars);
    uint64_t wall_ns = clock_wall_ns();
    if (count == 0)
        return 0;
    int status = write_line(metrics, report, scalars, count, wall_ns, err);
    if (!metrics->tensorboard)
        return status;
    int events_status = tensorboard_write(metrics->tensorboard, report, scalars, count, wall_ns,
                                          status ? NULL : err);
    return status ? status : events_status;
}
