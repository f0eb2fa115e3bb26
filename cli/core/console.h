/*
 * console — writes log lines, errors and a progress bar to stderr, without mixing them.
 *
 * On a terminal the bar is one line, redrawn at most ten times a second. Elsewhere, a progress line
 * appears after ten seconds without output. --quiet suppresses progress. NO_COLOR is honored.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_CLI_CORE_CONSOLE_H
#define MILLRACE_CLI_CORE_CONSOLE_H

#include "base/err.h"
#include "base/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CONSOLE_BAR_BYTES_MAX = 512,
    CONSOLE_LABEL_BYTES_MAX = 64,
    CONSOLE_COLUMNS_DEFAULT = 80,
    CONSOLE_RANK_BYTES_MAX = 24
};

enum progress_unit { PROGRESS_ITEMS, PROGRESS_SAMPLES, PROGRESS_STEPS, PROGRESS_BYTES };

struct progress {
    const char *label; /* "converting" */
    enum progress_unit unit;
    uint64_t done_before; /* by an earlier run; not part of the rate */
    uint64_t done, total; /* total 0: unknown */
    uint64_t elapsed_ns;
};

/* Guarded by lock, except quiet, is_terminal, uses_color, rank_prefix and is_first_rank: these are
 * set before other threads start. */
struct console {
    pthread_mutex_t lock;
    bool quiet, is_terminal, uses_color;
    struct log log;
    char rank_prefix[CONSOLE_RANK_BYTES_MAX]; /* "rank 3: "; "" for a single rank */
    bool is_first_rank;
    bool is_bar_active, is_bar_drawn, has_update;
    char label[CONSOLE_LABEL_BYTES_MAX];
    struct progress progress;
    uint64_t began_ns, drawn_ns;
};

void console_init(struct console *console);
void console_deinit(struct console *console);
/* Call this and console_set_rank before other threads use the console. */
void console_set_verbosity(struct console *console, bool quiet, bool verbose);

/* Only the first rank prints lines and the bar; every rank prints its errors, with its number. */
void console_set_rank(struct console *console, int rank, int ranks);

/* Prints `millrace: LINE`, even with --quiet. */
void console_error(struct console *console, const struct err *err);
void console_error_line(struct console *console, const char *line);
void console_line(struct console *console, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces the current bar. label: "converting". The rate excludes items that the first update
 * reports as done. */
void progress_begin(struct console *console, const char *label, enum progress_unit unit);
/* console: a struct console, untyped so that the function can be a callback. */
void progress_update(void *console, uint64_t done, uint64_t total);
void progress_end(struct console *console);
/* Erases the bar until the next update. Call before printing on stdout. */
void progress_hide(struct console *console);

/* Returns the terminal's number of columns, or `fallback` if the descriptor is not a terminal or
 * the terminal has no size, as under mpirun. */
unsigned console_columns(int descriptor, unsigned fallback);
/* Formats the bar, without a newline, in at most `columns` columns. Pure. Returns text. */
const char *progress_format(const struct progress *progress, unsigned columns,
                            char text[CONSOLE_BAR_BYTES_MAX]);

#endif
