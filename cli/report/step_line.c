#include "cli/report/step_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

enum detail {
    DETAIL_ALL,
    DETAIL_LARGEST_CATEGORY,
    DETAIL_NO_UPDATE,
    DETAIL_NO_DEVICE,
    DETAIL_COUNT
};

static void add_remaining(struct str *out, double seconds)
{
    if (seconds < 90)
        str_add_format(out, "  left %.0f s", seconds);
    else if (seconds < 5400)
        str_add_format(out, "  left %.0f min", seconds / 60);
    else
        str_add_format(out, "  left %.1f h", seconds / 3600);
}

/* Adds the known device metrics; on the CPU there are none. */
static void add_device_metrics(struct str *out, const struct trainer_device_metrics *metrics)
{
    char size[STR_SIZE_BYTES];
    if (metrics->device_used_bytes == 0)
        return;
    if (metrics->peak_share > 0)
        str_add_format(out, "  peak %.1f%%", metrics->peak_share * 100);
    if (metrics->utilization_share >= 0)
        str_add_format(out, "  gpu %.0f%%", metrics->utilization_share * 100);
    str_add_format(out, "  memory %s", str_format_size(metrics->device_used_bytes, size));
}

/* Appends each category of at least 1 % of the step's time, or only the largest category. */
static void add_time(struct str *out, const struct trainer_report *report, bool only_largest)
{
    static const enum time_category categories[] = {TIME_LOAD,   TIME_FORWARD, TIME_BACKWARD,
                                                    TIME_REDUCE, TIME_UPDATE,  TIME_QUEUE,
                                                    TIME_DEVICE, TIME_SAVE,    TIME_OTHER};
    double all_ns = (double)category_times_training_ns(&report->time), largest = 0;
    enum time_category largest_category = TIME_OTHER;
    str_add_text(out, only_largest ? "" : "  time:");
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        double percent = (double)report->time.ns[categories[i]] / all_ns * 100;
        if (percent >= 1 && !only_largest)
            str_add_format(out, " %s %.0f%%", time_category_name(categories[i]), percent);
        largest_category = percent > largest ? categories[i] : largest_category;
        largest = percent > largest ? percent : largest;
    }
    if (only_largest)
        str_add_format(out, "  %s %.0f%%", time_category_name(largest_category), largest);
}

static void format_with_detail(const struct trainer_report *report, enum detail detail,
                               struct str *out)
{
    str_clear(out);
    str_add_format(out, "step %" PRIu64 "/%" PRIu64 "  loss %.4f", report->step, report->steps,
                   report->loss);
    if (detail < DETAIL_NO_UPDATE)
        str_add_format(out, "  lr %.3g  grad %.3f", report->lr, report->gradient_norm);
    if (report->tokens_per_second > 0)
        str_add_format(out, "  %.0f tokens/s", report->tokens_per_second);
    else
        str_add_format(out, "  %.1f samples/s", report->samples_per_second);
    if (detail < DETAIL_NO_DEVICE)
        add_device_metrics(out, &report->metrics);
    add_time(out, report, detail >= DETAIL_LARGEST_CATEGORY);
    add_remaining(out, report->remaining_seconds);
}

void step_line_format(const struct trainer_report *report, unsigned columns, struct str *out)
{
    format_with_detail(report, DETAIL_ALL, out);
    for (int detail = DETAIL_ALL + 1; detail < DETAIL_COUNT && out->bytes >= columns; detail++)
        format_with_detail(report, (enum detail)detail, out);
}
