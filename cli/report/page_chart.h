/*
 * page_chart — SVG charts in a page: lines over steps, and histograms. Each has a title, a legend
 * and a label for screen readers.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_CHART_H
#define MILLRACE_CLI_REPORT_PAGE_CHART_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHART_SERIES_MAX = 2, CHART_TICK_BYTES = 32 };

/* A y that is not finite leaves a gap in the line. x is ascending. */
struct chart_point {
    double x, y;
};

struct chart_series {
    const char *name;
    const struct chart_point *points; /* borrowed */
    size_t count;
};

struct chart {
    const char *title, *x_name, *unit;
    /* minimum end of the x axis */
    double x_end;
    bool starts_at_zero; /* the y axis starts at 0 */
    struct chart_series series[CHART_SERIES_MAX];
    const double *marks; /* x positions of triangles; NULL: none */
    size_t marks_count;
    const char *marks_name;
};

/* Charts of a group are side by side if they fit. */
void chart_group_begin(struct str *out, const char *heading, const char *note);
void chart_group_end(struct str *out);

/* Draws nothing if no series has a finite point. */
void chart_draw_lines(struct str *out, const struct chart *chart);

/* Column i counts the values in edges[i]..edges[i + 1]; all columns are equally wide. */
struct chart_histogram {
    const char *title, *x_name;
    const double *edges;    /* [count + 1] */
    const uint64_t *counts; /* [count] */
    size_t count;
    const char *(*edge_text)(double edge, char text[CHART_TICK_BYTES]);
};
void chart_draw_histogram(struct str *out, const struct chart_histogram *histogram);

/* Formats a number for an axis: "0.05", "12k", "3M". Returns text. */
const char *chart_format_number(double value, char text[CHART_TICK_BYTES]);
/* Returns 1, 2 or 5 times a power of ten, about span / ticks. */
double chart_tick_spacing(double span, unsigned ticks);

#endif
