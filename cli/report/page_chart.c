#include "cli/report/page_chart.h"

#include "cli/report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* in chart units */
enum {
    WIDTH = 480,
    HEIGHT = 260,
    /* room for 8 characters on each axis */
    LEFT = 68,
    RIGHT = 448,
    TOP = 12,
    BOTTOM = 214,
    TICKS_X = 6,
    TICKS_Y = 5,
    DOTS_MAX = 300, /* lines with more points have no dots */
    LABELS_MAX = 5, /* at a histogram's edges */
};

struct axis {
    double min, max; /* of the values */
    double from, to; /* in the chart */
};

static double position(const struct axis *axis, double value)
{
    return axis->from + (axis->to - axis->from) * (value - axis->min) / (axis->max - axis->min);
}

double chart_tick_spacing(double span, unsigned ticks)
{
    double raw = span / ticks, power = pow(10, floor(log10(raw)));
    double mantissa = raw / power;
    return power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

const char *chart_format_number(double value, char text[CHART_TICK_BYTES])
{
    double size = fabs(value);
    if (size >= 1e6 && size < 1e9)
        snprintf(text, CHART_TICK_BYTES, "%.4gM", value / 1e6);
    else if (size >= 1e4 && size < 1e6)
        snprintf(text, CHART_TICK_BYTES, "%.4gk", value / 1e3);
    else
        snprintf(text, CHART_TICK_BYTES, "%.4g", value);
    return text;
}

/* Widens the axis to whole ticks; returns their spacing. */
static double round_axis(struct axis *axis, unsigned ticks)
{
    if (!(axis->max > axis->min)) {
        double half = axis->min == 0 ? 1 : fabs(axis->min) / 2;
        axis->max = axis->min + half;
        axis->min -= axis->min > 0 || axis->min < 0 ? half : 0;
    }
    double step = chart_tick_spacing(axis->max - axis->min, ticks);
    axis->min = floor(axis->min / step + 1e-9) * step;
    axis->max = ceil(axis->max / step - 1e-9) * step;
    return step;
}

static void draw_x_labels(struct str *out, const struct axis *x, double step)
{
    char text[CHART_TICK_BYTES];
    for (int i = 0; i <= 2 * TICKS_X; i++) {
        double value = (ceil(x->min / step - 1e-9) + i) * step;
        if (value > x->max + step * 1e-6)
            break;
        str_add_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                       position(x, value), BOTTOM + 18, chart_format_number(value, text));
    }
}

static void draw_y_labels(struct str *out, const struct axis *y, double step)
{
    char text[CHART_TICK_BYTES];
    for (int i = 0; i <= 2 * TICKS_Y; i++) {
        double value = y->min + i * step;
        if (value > y->max + step * 1e-6)
            break;
        if (fabs(value) < step * 1e-6)
            value = 0;
        str_add_format(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                       LEFT, RIGHT, position(y, value), position(y, value));
        str_add_format(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                       position(y, value) + 4, chart_format_number(value, text));
    }
}

static void draw_frame(struct str *out, const char *x_name)
{
    str_add_format(out, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", LEFT,
                   RIGHT, BOTTOM, BOTTOM);
    str_add_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2,
                   HEIGHT - 8);
    page_element(out, "", x_name, "</text>\n");
}

static void draw_line(struct str *out, const struct chart_series *series, unsigned series_index,
                      const struct axis *x, const struct axis *y)
{
    bool is_connected = false;
    str_add_format(out, "<path class=\"line s%u\" d=\"", series_index);
    for (size_t i = 0; i < series->count; i++) {
        const struct chart_point *point = &series->points[i];
        if (isfinite(point->y))
            str_add_format(out, "%c%.1f %.1f", is_connected ? 'L' : 'M', position(x, point->x),
                           position(y, point->y));
        is_connected = isfinite(point->y);
    }
    str_add_text(out, "\"/>\n");
}

/* Dots show values on hover. They are visible only if there are few. */
static void draw_dots(struct str *out, const struct chart_series *series, unsigned series_index,
                      const struct axis *x, const struct axis *y)
{
    if (series->count > DOTS_MAX)
        return;
    for (size_t i = 0; i < series->count; i++) {
        const struct chart_point *point = &series->points[i];
        if (!isfinite(point->y))
            continue;
        double left = position(x, point->x), top = position(y, point->y);
        str_add_text(out, "<g>");
        if (series->count <= DOTS_MAX / 10)
            str_add_format(out, "<circle class=\"d%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
                           series_index, left, top);
        str_add_format(out, "<circle class=\"hit\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/><title>", left,
                       top);
        page_format(out, "%s %.6g at %.10g", series->name, point->y, point->x);
        str_add_text(out, "</title></g>\n");
    }
}

static void draw_marks(struct str *out, const struct chart *chart, const struct axis *x)
{
    for (size_t i = 0; i < chart->marks_count; i++) {
        double left = position(x, chart->marks[i]);
        if (chart->marks[i] < x->min || chart->marks[i] > x->max)
            continue;
        str_add_format(out, "<path class=\"mark\" d=\"M%.1f %dl4 7h-8z\"><title>", left,
                       BOTTOM - 7);
        page_format(out, "%s %.10g", chart->marks_name, chart->marks[i]);
        str_add_text(out, "</title></path>\n");
    }
}

/* shape: path data within 28 x 10 units */
static void draw_legend_entry(struct str *out, const char *css_class, const char *shape,
                              const char *name)
{
    str_add_format(out,
                   "<span class=\"legend\"><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path "
                   "class=\"%s\" d=\"%s\"/></svg>",
                   css_class, shape);
    page_element(out, "", name, "</span> ");
}

static void draw_legend(struct str *out, const struct chart *chart)
{
    static const char *const lines[CHART_SERIES_MAX] = {"line s0", "line s1"};
    str_add_text(out, " ");
    for (unsigned s = 0; s < CHART_SERIES_MAX && chart->series[1].count > 0; s++)
        draw_legend_entry(out, lines[s], "M0 5h28", chart->series[s].name);
    if (chart->marks_count > 0)
        draw_legend_entry(out, "mark", "M14 1l5 9h-10z", chart->marks_name);
}

/* legend: the chart, or NULL. The caller adds the label's text and `">`. */
static void begin_figure(struct str *out, const char *title, const char *unit,
                         const struct chart *legend)
{
    page_element(out, "<figure><figcaption><b>", title, "</b>");
    if (unit[0])
        page_format(out, ", %s", unit);
    if (legend)
        draw_legend(out, legend);
    str_add_format(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                   WIDTH, HEIGHT);
}

static double last_finite_y(const struct chart_series *series)
{
    for (size_t i = series->count; i-- > 0;)
        if (isfinite(series->points[i].y))
            return series->points[i].y;
    return NAN;
}

static bool find_range(const struct chart *chart, struct axis *x, struct axis *y)
{
    bool found = false;
    x->max = fmax(1, chart->x_end);
    for (unsigned s = 0; s < CHART_SERIES_MAX; s++) {
        for (size_t i = 0; i < chart->series[s].count; i++) {
            const struct chart_point *point = &chart->series[s].points[i];
            if (!isfinite(point->y))
                continue;
            x->max = fmax(x->max, point->x);
            y->min = found ? fmin(y->min, point->y) : point->y;
            y->max = found ? fmax(y->max, point->y) : point->y;
            found = true;
        }
    }
    if (chart->starts_at_zero)
        y->min = fmin(y->min, 0);
    return found;
}

void chart_group_begin(struct str *out, const char *heading, const char *note)
{
    page_section_begin(out, heading, note);
    str_add_text(out, "<div class=\"charts\">\n");
}

void chart_group_end(struct str *out)
{
    str_add_text(out, "</div>\n");
    page_section_end(out);
}

void chart_draw_lines(struct str *out, const struct chart *chart)
{
    struct axis x = {.from = LEFT, .to = RIGHT}, y = {.from = BOTTOM, .to = TOP};
    if (!find_range(chart, &x, &y))
        return;
    double x_step = fmax(1, chart_tick_spacing(x.max - x.min, TICKS_X));
    double y_step = round_axis(&y, TICKS_Y);
    begin_figure(out, chart->title, chart->unit, chart);
    page_format(out, "%s over %s 0 to %.10g", chart->title, chart->x_name, x.max);
    for (unsigned s = 0; s < CHART_SERIES_MAX; s++)
        if (isfinite(last_finite_y(&chart->series[s])))
            page_format(out, "; %s ends at %.6g", chart->series[s].name,
                        last_finite_y(&chart->series[s]));
    str_add_text(out, "\">\n");
    draw_y_labels(out, &y, y_step);
    draw_x_labels(out, &x, x_step);
    draw_frame(out, chart->x_name);
    draw_marks(out, chart, &x);
    for (unsigned s = 0; s < CHART_SERIES_MAX; s++) {
        draw_line(out, &chart->series[s], s, &x, &y);
        draw_dots(out, &chart->series[s], s, &x, &y);
    }
    str_add_text(out, "</svg></figure>\n");
}

void chart_draw_histogram(struct str *out, const struct chart_histogram *h)
{
    uint64_t max = 0;
    char from[CHART_TICK_BYTES], to[CHART_TICK_BYTES];
    for (size_t i = 0; i < h->count; i++)
        max = h->counts[i] > max ? h->counts[i] : max;
    if (max == 0)
        return;
    struct axis y = {.from = BOTTOM, .to = TOP, .min = 0, .max = fmax(TICKS_Y, (double)max)};
    double step = round_axis(&y, TICKS_Y), width = (double)(RIGHT - LEFT) / (double)h->count;
    begin_figure(out, h->title, "samples", NULL);
    page_format(out, "%s from %s to %s", h->title, h->edge_text(h->edges[0], from),
                h->edge_text(h->edges[h->count], to));
    str_add_text(out, "\">\n");
    draw_y_labels(out, &y, step);
    for (size_t i = 0; i < h->count; i++) {
        double top = position(&y, (double)h->counts[i]);
        str_add_format(
            out,
            "<rect class=\"column\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
            LEFT + width * (double)i + .5, top, width - 1, BOTTOM - top);
        page_format(out, "%s to %s: %" PRIu64, h->edge_text(h->edges[i], from),
                    h->edge_text(h->edges[i + 1], to), h->counts[i]);
        str_add_text(out, "</title></rect>\n");
    }
    size_t label_step = (h->count + LABELS_MAX - 1) / LABELS_MAX;
    for (size_t i = 0; i <= h->count; i += label_step) {
        str_add_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                       LEFT + width * (double)i, BOTTOM + 18);
        page_element(out, "", h->edge_text(h->edges[i], from), "</text>");
    }
    draw_frame(out, h->x_name);
    str_add_text(out, "</svg></figure>\n");
}
