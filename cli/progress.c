/*
 * progress — the text of the bar: `converting  1234/3068  40%  [=======>          ]  620/s  3 s left`.
 *
 * What does not fit is left out, the bar first, so that it never wraps.
 */
#include "base/clock.h"
#include "base/str.h"
#include "cli/console.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BAR_COLUMNS_LEAST = 10, BAR_COLUMNS_MOST = 40 };

static void format_amount(enum progress_unit unit, uint64_t amount, char text[32])
{
    if (unit == PROGRESS_BYTES)
        str_format_size(amount, text);
    else
        snprintf(text, 32, "%" PRIu64, amount);
}

static void format_left(uint64_t done, uint64_t total, uint64_t elapsed_ns, char text[32])
{
    text[0] = '\0';
    if (done == 0 || total <= done)
        return;
    double seconds = clock_seconds(elapsed_ns) * (double)(total - done) / (double)done;
    if (seconds < 60)
        snprintf(text, 32, "  %.0f s left", seconds);
    else if (seconds < 3600)
        snprintf(text, 32, "  %.0f min left", seconds / 60);
    else if (seconds < 1e7)
        snprintf(text, 32, "  %.1f h left", seconds / 3600);
}

static void format_bar(uint64_t done, uint64_t total, unsigned inner, char *text)
{
    unsigned filled = (unsigned)((double)inner * (double)done / (double)total);
    *text++ = '[';
    for (unsigned i = 0; i < inner; i++)
        *text++ = i < filled ? '=' : i == filled ? '>' : ' ';
    *text++ = ']';
    *text = '\0';
}

const char *progress_format(const char *label, enum progress_unit unit, uint64_t done, uint64_t total,
                            uint64_t elapsed_ns, unsigned columns, char text[CONSOLE_BAR_BYTES_MAX])
{
    char amount[32], all[32] = "", percent[16] = "", rate[40], left[32], head[160], tail[96];
    char bar[BAR_COLUMNS_MOST + 8] = "";
    if (columns >= CONSOLE_BAR_BYTES_MAX)
        columns = CONSOLE_BAR_BYTES_MAX - 1;
    if (total > 0 && done > total)
        done = total;
    format_amount(unit, done, amount);
    if (total > 0) {
        char whole[32];
        format_amount(unit, total, whole);
        snprintf(all, sizeof all, "/%.30s", whole);
        snprintf(percent, sizeof percent, "  %.0f%%", 100.0 * (double)done / (double)total);
    }
    char speed[32];
    format_amount(unit, elapsed_ns ? (uint64_t)((double)done / clock_seconds(elapsed_ns)) : 0, speed);
    snprintf(rate, sizeof rate, "  %s/s", speed);
    format_left(done, total, elapsed_ns, left);
    snprintf(head, sizeof head, "%.63s  %s%s%s", label, amount, all, percent);
    snprintf(tail, sizeof tail, "%s%s", rate, left);

    size_t used = strlen(head) + strlen(tail);
    if (total > 0 && used + BAR_COLUMNS_LEAST + 4 <= columns) {
        size_t inner = columns - used - 4;
        bar[0] = bar[1] = ' ';
        format_bar(done, total, (unsigned)(inner > BAR_COLUMNS_MOST ? BAR_COLUMNS_MOST : inner), bar + 2);
    }
    if (used > columns)
        snprintf(tail, sizeof tail, "%s", rate);
    if (strlen(head) + strlen(tail) > columns)
        tail[0] = '\0';
    snprintf(text, (size_t)columns + 1, "%s%s%s", head, bar, tail);
    return text;
}
