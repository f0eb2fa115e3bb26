#include "cli/report/page_run.h"

#include "base/clock.h"
#include "base/json/jsonx.h"
#include "ckpt/ckpt.h"
#include "cli/report/page.h"
#include "cli/report/page_chart.h"
#include "cli/report/page_values.h"
#include "cli/report/run_metrics.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MARKS_MAX = 200, ROWS_MAX = 500 };
#define SAMPLES_UNIT "samples per second"
#define TOKENS_UNIT  "tokens per second"

struct checkpoints {
    struct str rows;   /* rows of the table */
    struct str config; /* section with the newest configuration */
    double steps[MARKS_MAX];
    size_t marks_count;
    uint64_t count, bytes;
};

static void show_metrics(struct str *out, const struct json_t *metrics)
{
    double loss, accuracy;
    if (jsonx_f64(jsonx_get(metrics, "val_loss"), &loss) == 0 &&
        jsonx_f64(jsonx_get(metrics, "val_accuracy"), &accuracy) == 0) {
        page_number(out, "%.4f", loss);
        page_number(out, "%.1f %%", 100 * accuracy);
    } else {
        page_number(out, "–");
        page_number(out, "–");
    }
}

static int add_checkpoint(void *context, const struct ckpt_entry *entry)
{
    struct checkpoints *c = context;
    char time[CLOCK_ISO_BYTES];
    struct json_t *config = jsonx_get(entry->state, "config");
    c->count++;
    c->bytes += entry->size_bytes;
    if (c->marks_count < MARKS_MAX)
        c->steps[c->marks_count++] = (double)entry->step;
    str_clear(&c->config);
    if (config && jsonx_count(config) > 0)
        page_values_table(&c->config, "Configuration", "From the newest checkpoint.",
                          "Configuration", config);
    if (c->count > ROWS_MAX)
        return 0;
    page_row_begin(&c->rows);
    page_count(&c->rows, entry->step);
    page_cell(&c->rows, clock_format_iso(entry->wall_ns, time));
    page_size(&c->rows, entry->size_bytes);
    show_metrics(&c->rows, jsonx_get(entry->state, "metrics"));
    page_cell(&c->rows, entry->path);
    page_row_end(&c->rows);
    return 0;
}

/* A missing folder has no checkpoints. */
static int collect_checkpoints(struct io *io, const char *folder, const struct log *log,
                               struct checkpoints *checkpoints, struct err *err)
{
    int status = ckpt_list(io, folder, add_checkpoint, checkpoints, log, err);
    if (status == -ENOENT) {
        err_clear(err);
        return 0;
    }
    return status;
}

static void show_checkpoints(struct str *out, const struct checkpoints *c, const char *folder)
{
    static const struct page_column columns[] = {{"step", true},
                                                 {"written", false},
                                                 {"size", true},
                                                 {"validation loss, nats", true},
                                                 {"validation accuracy", true},
                                                 {"path", false}};
    char size[STR_SIZE_BYTES];
    struct str note = {0};
    if (c->count == 0)
        str_add_format(&note, "None in %s.", folder);
    else
        str_add_format(&note, "%" PRIu64 " complete, %s in total.", c->count,
                       str_format_size(c->bytes, size));
    if (c->count > ROWS_MAX)
        str_add_format(&note, " The oldest %d are listed.", ROWS_MAX);
    if (c->count > 0) {
        page_table_begin(out, "Checkpoints", str_text(&note), "Checkpoints in step order", columns,
                         sizeof columns / sizeof columns[0]);
        str_add_text(out, str_text(&c->rows));
        page_table_end(out);
    } else {
        page_section_begin(out, "Checkpoints", str_text(&note));
        page_section_end(out);
    }
    str_deinit(&note);
    str_add_text(out, str_text(&c->config));
}

struct curve {
    const char *title, *unit;
    double scale;                   /* values in the file are multiplied by this */
    bool starts_at_zero, has_marks; /* has_marks: a triangle at each checkpoint */
    struct {
        const char *name; /* NULL: none */
        enum run_series_kind kind;
    } series[CHART_SERIES_MAX];
};

static const struct curve curves[] = {
    {"Loss", "nats", 1, false, true, {{"training", RUN_LOSS}, {"validation", RUN_VAL_LOSS}}},
    {"Validation accuracy", "%", 100, true, true, {{"accuracy", RUN_VAL_ACCURACY}}},
    {"Learning rate", "", 1, true, false, {{"learning rate", RUN_LR}}},
    {"Gradient norm", "before clipping", 1, true, false, {{"norm", RUN_GRADIENT_NORM}}},
    {"Throughput", SAMPLES_UNIT, 1, true, false, {{SAMPLES_UNIT, RUN_SAMPLES_PER_SECOND}}},
    {"Throughput", TOKENS_UNIT, 1, true, false, {{TOKENS_UNIT, RUN_TOKENS_PER_SECOND}}},
    {"Waits",
     "% of time",
     100,
     true,
     true,
     {{"for data", RUN_DATA_WAIT}, {"for checkpoints", RUN_CHECKPOINT_WAIT}}},
    {"Device", "%", 100, true, false, {{"busy", RUN_UTILIZATION}, {"of peak", RUN_PEAK}}},
};

static void show_curve(struct str *out, const struct curve *curve, struct run_metrics *metrics,
                       const struct checkpoints *checkpoints)
{
    struct chart chart = {.title = curve->title,
                          .x_name = "step",
                          .unit = curve->unit,
                          .x_end = (double)metrics->last_step,
                          .starts_at_zero = curve->starts_at_zero};
    for (unsigned s = 0; s < CHART_SERIES_MAX && curve->series[s].name; s++) {
        struct run_series *series = &metrics->series[curve->series[s].kind];
        for (size_t i = 0; i < series->count; i++)
            series->points[i].y *= curve->scale;
        chart.series[s] =
            (struct chart_series){curve->series[s].name, series->points, series->count};
    }
    if (curve->has_marks) {
        chart.marks = checkpoints->steps;
        chart.marks_count = checkpoints->marks_count;
        chart.marks_name = "checkpoint";
    }
    chart_draw_lines(out, &chart);
}

static void show_curves(struct str *out, struct run_metrics *metrics,
                        const struct checkpoints *checkpoints)
{
    struct str note = {0};
    uint64_t lines_per_point = metrics->series[RUN_LOSS].lines_per_point;
    if (metrics->lines_count == 0)
        str_add_text(&note, "Nothing has been reported yet.");
    else if (lines_per_point > 1)
        str_add_format(&note, "A point is the mean of %" PRIu64 " reports.", lines_per_point);
    chart_group_begin(out, "Over the steps", str_text(&note));
    str_deinit(&note);
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        show_curve(out, &curves[i], metrics, checkpoints);
    chart_group_end(out);
}

static void show_facts(struct str *out, const struct run_metrics *metrics)
{
    const struct run_series *series = metrics->series;
    double seconds = metrics->last_wall_seconds - metrics->first_wall_seconds;
    char time[CLOCK_ISO_BYTES];
    page_facts_begin(out, "Final values");
    page_fact(out, "step", "%" PRIu64, metrics->last_step);
    page_fact(out, "epoch", "%" PRIu64, metrics->last_epoch);
    if (series[RUN_LOSS].count > 0)
        page_fact(out, "training loss", "%.4f nats", series[RUN_LOSS].last_value);
    if (series[RUN_VAL_LOSS].count > 0)
        page_fact(out, "validation loss", "%.4f nats", series[RUN_VAL_LOSS].last_value);
    if (series[RUN_VAL_ACCURACY].count > 0)
        page_fact(out, "validation accuracy", "%.1f %%", 100 * series[RUN_VAL_ACCURACY].last_value);
    if (series[RUN_SAMPLES_PER_SECOND].count > 0)
        page_fact(out, SAMPLES_UNIT, "%.4g", series[RUN_SAMPLES_PER_SECOND].last_value);
    if (metrics->last_wall_seconds > 0) {
        page_fact(out, "first to last report", "%.0f:%02d:%02d h", floor(seconds / 3600),
                  (int)fmod(seconds / 60, 60), (int)fmod(seconds, 60));
        clock_format_iso((uint64_t)(metrics->last_wall_seconds * 1e9), time);
        page_fact(out, "last report, UTC", "%.10s %.8s", time, time + strlen("2026-11-21T"));
    }
    page_facts_end(out);
}

int page_run_build(struct io *io, const char *metrics_path, const struct log *log, struct str *out,
                   struct err *err)
{
    char run_folder[IO_PATH_BYTES_MAX], folder[IO_PATH_BYTES_MAX];
    struct run_metrics *metrics = NULL;
    struct checkpoints checkpoints = {0};
    io_parent_path(metrics_path, run_folder);
    int status = io_join_path(run_folder, CKPT_FOLDER_NAME, folder, err);
    if (!status)
        status = run_metrics_read(io, metrics_path, &metrics, err);
    if (!status)
        status = collect_checkpoints(io, folder, log, &checkpoints, err);
    if (!status) {
        page_begin(out, "run", "inspect", metrics_path);
        show_facts(out, metrics);
        show_curves(out, metrics, &checkpoints);
        show_checkpoints(out, &checkpoints, folder);
        page_end(out);
    }
    if (!status &&
        (str_status(out) || str_status(&checkpoints.rows) || str_status(&checkpoints.config)))
        status = err_set(err, -ENOMEM, "out of memory for the page of a run");
    str_deinit(&checkpoints.rows);
    str_deinit(&checkpoints.config);
    free(metrics);
    return status;
}
