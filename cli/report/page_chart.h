/*
 * page_chart — charts as SVG inside a page: lines over steps, columns of a histogram. Their colours
 * are the page's.
 *
 * Everything a chart shows is also said in words: its title, its legend, and a label that a screen
 * reader speaks.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_CHART_H
#define MILLRACE_CLI_REPORT_PAGE_CHART_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHART_SERIES_MAX = 2, CHART_TICK_BYTES = 32 };

/* y NaN or infinite: a gap in the line. x rises. */
struct chart_point {
    double x, y;
};

struct chart_series {
    const char *name;
    const struct chart_point *points; /* borrowed */
    size_t count;
};

/* Two series differ by colour and by dashes. */
struct chart {
    const char *title, *x_name, *unit;
    double
        x_end; /* the x axis reaches from 0 to here, or to the last point where that is further */
    bool from_zero; /* the y axis begins at 0 */
    struct chart_series series[CHART_SERIES_MAX];
    const double *marks; /* places on the x axis, as triangles; NULL: none */
    size_t marks_count;
    const char *marks_name;
};

/* Charts stand between these two, side by side where there is room. */
void chart_group_begin(struct str *out);
void chart_group_end(struct str *out);

/* Nothing where no series has a finite point. */
void chart_lines(struct str *out, const struct chart *chart);

/* Column i counts what lies in edges[i]..edges[i + 1]; columns are equally wide. */
struct chart_histogram {
    const char *title, *x_name;
    const double *edges;    /* count + 1 */
    const uint64_t *counts; /* [count] */
    size_t count;
    const char *(*edge_text)(double edge, char text[CHART_TICK_BYTES]);
};
void chart_columns(struct str *out, const struct chart_histogram *histogram);

/* A number short enough for an axis: "0.05", "12k", "3M". Returns text. */
const char *chart_number_text(double value, char text[CHART_TICK_BYTES]);
/* 1, 2 or 5 times a power of ten, such that about `ticks` of them make span. */
double chart_step(double span, unsigned ticks);

#endif
