/*
 * console — stderr: log lines, errors, and one progress bar that the lines do not tear.
 *
 * On a terminal the bar is one line, drawn again at most ten times a second in the width that the
 * terminal has at that moment; elsewhere a line where ten seconds passed without another; with
 * --quiet nothing. NO_COLOR is honoured.
 *
 * Threads: all calls may come from any thread.
 */
#ifndef MILLRACE_CLI_CORE_CONSOLE_H
#define MILLRACE_CLI_CORE_CONSOLE_H

#include "base/err.h"
#include "base/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONSOLE_BAR_BYTES_MAX = 512,
    CONSOLE_LABEL_BYTES_MAX = 64,
    CONSOLE_COLUMNS_DEFAULT = 80,
    CONSOLE_RANK_BYTES_MAX = 24
};

enum progress_unit { PROGRESS_ITEMS, PROGRESS_SAMPLES, PROGRESS_STEPS, PROGRESS_BYTES };

/* How far some work is. first: what was done when it began, as of a run that goes on; the rate is
 * that of what came after. */
struct progress {
    const char *label; /* what is done: "converting" */
    enum progress_unit unit;
    uint64_t first, done, total; /* total 0: unknown */
    uint64_t elapsed_ns;         /* since it began */
};

/* Guarded by lock, but for quiet, terminal, color and the rank, which are immutable after what sets
 * them. */
struct console {
    pthread_mutex_t lock;
    bool quiet, terminal, color;
    struct log log;                    /* writes here */
    char rank[CONSOLE_RANK_BYTES_MAX]; /* "rank 3: "; empty where it is alone */
    bool is_first;                     /* of the ranks */
    /* the bar */
    bool active, drawn, updated;
    char label[CONSOLE_LABEL_BYTES_MAX];
    struct progress progress;
    uint64_t began_ns, shown_ns;
};

void console_init(struct console *console);
void console_deinit(struct console *console);
/* Once the command line is known; before other threads use it. */
void console_set_quiet(struct console *console, bool quiet, bool verbose);

/* Of several ranks the first alone writes lines and the bar; what goes wrong each tells, and says
 * which it is. Before other threads use it. */
void console_set_rank(struct console *console, int rank, int ranks);

/* `millrace: LINE`, whatever --quiet says. */
void console_error(struct console *console, const struct err *err);
void console_failure(struct console *console, const char *line);
/* A line as it is, unless quiet. */
void console_line(struct console *console, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One at a time; another one may begin in its place. label: "converting". What the first update
 * tells of as done was done before. */
void progress_begin(struct console *console, const char *label, enum progress_unit unit);
/* total 0: unknown. */
void progress_update(struct console *console, uint64_t done, uint64_t total);
void progress_end(struct console *console);
/* Takes the bar off its line before something is printed on stdout, which may be the same terminal;
 * the next update draws it again. */
void progress_give_way(struct console *console);

/* Columns of the terminal on that descriptor, CONSOLE_COLUMNS_DEFAULT where it is none. */
unsigned console_columns(int descriptor);
/* The same, `otherwise` where nobody knows: where it is no terminal, or one without a size, as
 * mpirun's for its ranks. */
unsigned console_columns_or(int descriptor, unsigned otherwise);
/* The bar's text without its line end, at most columns wide; pure. Returns text. */
const char *progress_format(const struct progress *progress, unsigned columns,
                            char text[CONSOLE_BAR_BYTES_MAX]);

#endif
