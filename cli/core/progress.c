/*
 * progress — the text of the bar: `converting 1234/3068 items 40% [=======> ] 620/s 3 s left`.
 *
 * A narrow terminal omits the bar, then time, rate, unit and label.
 */
#include "base/clock.h"
#include "base/str.h"
#include "cli/core/console.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BAR_COLUMNS_MIN = 10, BAR_COLUMNS_MAX = 40 };

static void format_amount(enum progress_unit unit, uint64_t amount, char text[32])
{
    if (unit == PROGRESS_BYTES)
        str_format_size(amount, text);
    else
        snprintf(text, 32, "%" PRIu64, amount);
}

static void format_rate(const struct progress *progress, char text[40])
{
    uint64_t done_by_this_run =
        progress->done > progress->done_before ? progress->done - progress->done_before : 0;
    double rate =
        progress->elapsed_ns ? (double)done_by_this_run / clock_seconds(progress->elapsed_ns) : 0;
    char size[STR_SIZE_BYTES];
    if (progress->unit == PROGRESS_BYTES)
        snprintf(text, 40, "  %s/s", str_format_size((uint64_t)rate, size));
    else
        snprintf(text, 40, rate > 0 && rate < 9.95 ? "  %.2g/s" : "  %.0f/s", rate);
}

static void format_time_left(const struct progress *progress, char text[32])
{
    text[0] = '\0';
    if (progress->done <= progress->done_before || progress->total <= progress->done)
        return;
    double seconds = clock_seconds(progress->elapsed_ns) *
                     (double)(progress->total - progress->done) /
                     (double)(progress->done - progress->done_before);
    if (seconds < 60)
        snprintf(text, 32, "  %.0f s left", seconds);
    else if (seconds < 3600)
        snprintf(text, 32, "  %.0f min left", seconds / 60);
    else if (seconds < 1e7)
        snprintf(text, 32, "  %.1f h left", seconds / 3600);
}

static void format_bar(const struct progress *progress, unsigned inner_columns, char *text)
{
    unsigned filled =
        (unsigned)((double)inner_columns * (double)progress->done / (double)progress->total);
    *text++ = '[';
    for (unsigned i = 0; i < inner_columns; i++)
        *text++ = i < filled ? '=' : i == filled ? '>' : ' ';
    *text++ = ']';
    *text = '\0';
}

enum head { HEAD_COMPLETE, HEAD_WITHOUT_UNIT, HEAD_WITHOUT_LABEL };

/* Formats `converting  1234/3068 items  40%`. */
static void format_head(const struct progress *progress, enum head head, char text[160])
{
    static const char *const units[] = {
        [PROGRESS_ITEMS] = " items",
        [PROGRESS_SAMPLES] = " samples",
        [PROGRESS_STEPS] = " steps",
        [PROGRESS_BYTES] = "",
    };
    char amount[32], whole[32] = "", percent[16] = "";
    format_amount(progress->unit, progress->done, amount);
    if (progress->total > 0) {
        format_amount(progress->unit, progress->total, whole);
        snprintf(percent, sizeof percent, "  %.0f%%",
                 100.0 * (double)progress->done / (double)progress->total);
    }
    bool has_label = head < HEAD_WITHOUT_LABEL;
    snprintf(text, 160, "%.63s%s%s%s%s%s%s", has_label ? progress->label : "",
             has_label ? "  " : "", amount, *whole ? "/" : "", whole,
             head < HEAD_WITHOUT_UNIT ? units[progress->unit] : "", percent);
}

const char *progress_format(const struct progress *progress, unsigned columns,
                            char text[CONSOLE_BAR_BYTES_MAX])
{
    struct progress clamped = *progress;
    char rate[40], left[32], head[160], tail[96];
    char bar[BAR_COLUMNS_MAX + 8] = "";
    if (columns >= CONSOLE_BAR_BYTES_MAX)
        columns = CONSOLE_BAR_BYTES_MAX - 1;
    if (clamped.total > 0 && clamped.done > clamped.total)
        clamped.done = clamped.total;
    for (enum head shortened = HEAD_COMPLETE; shortened <= HEAD_WITHOUT_LABEL; shortened++) {
        format_head(&clamped, shortened, head);
        if (strlen(head) <= columns)
            break;
    }
    format_rate(&clamped, rate);
    format_time_left(&clamped, left);
    snprintf(tail, sizeof tail, "%s%s", rate, left);

    size_t used = strlen(head) + strlen(tail);
    if (clamped.total > 0 && used + BAR_COLUMNS_MIN + 4 <= columns) {
        size_t inner_columns = columns - used - 4;
        bar[0] = bar[1] = ' ';
        format_bar(&clamped,
                   (unsigned)(inner_columns > BAR_COLUMNS_MAX ? BAR_COLUMNS_MAX : inner_columns),
                   bar + 2);
    }
    if (used > columns)
        snprintf(tail, sizeof tail, "%s", rate);
    if (strlen(head) + strlen(tail) > columns)
        tail[0] = '\0';
    snprintf(text, (size_t)columns + 1, "%s%s%s", head, bar, tail);
    return text;
}
