/*
 * metrics — see metrics.h.
 */
#include "trainer/metrics.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "io/line_log.h"
#include "io/whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_BYTES_MAX = 1 << 30 };

struct metrics {
    struct line_log *log;
    struct str line; /* reused */
};

static bool comes_again(const struct json_t *line, uint64_t step, struct metrics_resume resume)
{
    bool is_evaluation = json_get(line, "val_loss") != NULL;
    return step > resume.step || (step == resume.step && is_evaluation && !resume.is_evaluated);
}

/* Bytes of the leading lines that are whole, ours, and of what lies behind the run. */
static uint64_t bytes_to_keep(const char *text, size_t bytes, struct metrics_resume resume)
{
    size_t kept = 0;
    while (kept < bytes) {
        const char *end = memchr(text + kept, '\n', bytes - kept);
        struct json_t *root;
        uint64_t step;
        if (!end || json_parse(text + kept, (size_t)(end - text) - kept, NULL, 0, &root, NULL))
            break;
        bool stays = json_u64(json_get(root, "step"), &step) == 0 && !comes_again(root, step, resume);
        json_free(root);
        if (!stays)
            break;
        kept = (size_t)(end - text) + 1;
    }
    return kept;
}

int metrics_open(struct io *io, const char *path, struct metrics_resume resume, struct metrics **ret_metrics,
                 struct err *err)
{
    uint64_t keep_bytes = 0;
    if (resume.step > 0) {
        char *text = NULL;
        size_t bytes = 0;
        int status = io_read_file(io, path, METRICS_BYTES_MAX, &text, &bytes, err);
        if (status && status != -ENOENT)
            return status;
        if (status)
            err_clear(err); /* the run was moved without its metrics: they begin here */
        keep_bytes = status ? 0 : bytes_to_keep(text, bytes, resume);
        free(text);
    }
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return err_set(err, -ENOMEM, "out of memory for metrics");
    int status = line_log_open(path, keep_bytes, &metrics->log, err);
    if (!status && str_reserve(&metrics->line, 1024))
        status = err_set(err, -ENOMEM, "out of memory for metrics");
    if (status) {
        metrics_close(metrics);
        return status;
    }
    *ret_metrics = metrics;
    return 0;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    line_log_close(metrics->log);
    str_deinit(&metrics->line);
    free(metrics);
}

int metrics_write(struct metrics *metrics, const struct trainer_report *report, struct err *err)
{
    struct json_writer w = {.out = &metrics->line};
    str_clear(&metrics->line);
    json_begin_object(&w, NULL);
    json_write_u64(&w, "step", report->step);
    json_write_u64(&w, "epoch", report->epoch);
    if (report->event == TRAINER_STEP) {
        json_write_f64(&w, "loss", report->loss);
        json_write_f64(&w, "lr", report->lr);
        json_write_f64(&w, "gradient_norm", report->gradient_norm);
        json_write_f64(&w, "samples_per_second", report->samples_per_second);
        if (report->tokens_per_second > 0)
            json_write_f64(&w, "tokens_per_second", report->tokens_per_second);
        json_write_f64(&w, "data_wait_share", report->data_wait_share);
        json_write_f64(&w, "checkpoint_wait_share", report->checkpoint_wait_share);
    } else if (report->event == TRAINER_EVALUATED) {
        json_write_f64(&w, "val_loss", report->loss);
        json_write_f64(&w, "val_accuracy", report->accuracy);
    } else {
        return 0;
    }
    json_write_f64(&w, "wall_seconds", clock_seconds(clock_wall_ns()));
    json_end_object(&w);
    if (str_status(&metrics->line))
        return err_set(err, -ENOMEM, "out of memory for a line of metrics");
    return line_log_add(metrics->log, metrics->line.data, metrics->line.bytes, err);
}
