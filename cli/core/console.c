#include "cli/core/console.h"

#include "base/clock.h"
#include "base/display.h"
#include "cli/core/signals.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REDRAW_INTERVAL_NS = 100 * 1000 * 1000 };
#define LINE_INTERVAL_NS (10 * CLOCK_NS_PER_S)

unsigned console_columns(int descriptor, unsigned fallback)
{
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) || size.ws_col == 0 ? fallback : size.ws_col;
}

/* Requires the lock. */
static void erase_bar(struct console *console)
{
    if (!console->is_bar_drawn)
        return;
    fputs("\r\033[K", stderr);
    signals_set_exit_text(NULL);
    console->is_bar_drawn = false;
}

/* Requires the lock. */
static void draw_bar(struct console *console)
{
    char text[CONSOLE_BAR_BYTES_MAX];
    unsigned columns = console->is_terminal
                           ? console_columns(STDERR_FILENO, CONSOLE_COLUMNS_DEFAULT) - 1
                           : CONSOLE_BAR_BYTES_MAX;
    progress_format(&console->progress, columns, text);
    fprintf(stderr, console->is_terminal ? "\r%s\033[K" : "%s\n", text);
    fflush(stderr);
    if (console->is_terminal)
        signals_set_exit_text("\n"); /* ends the bar's line before the shell's prompt */
    console->is_bar_drawn = console->is_terminal;
}

static void write_log(void *context, enum log_level level, const char *line)
{
    struct console *console = context;
    const char *prefix = level == LOG_ERROR ? "error: " : level == LOG_WARN ? "warning: " : "";
    const char *color = !console->uses_color ? ""
                        : level == LOG_ERROR ? "\033[31m"
                        : level == LOG_WARN  ? "\033[33m"
                                             : "";
    const char *rank = level >= LOG_WARN || !console->is_first_rank ? console->rank_prefix : "";
    struct str display_text = {0};
    display_add(&display_text, line);
    pthread_mutex_lock(&console->lock);
    erase_bar(console);
    fprintf(stderr, "%s%s%s%s%s\n", color, prefix, *color ? "\033[0m" : "", rank,
            str_text(&display_text));
    pthread_mutex_unlock(&console->lock);
    str_deinit(&display_text);
}

void console_init(struct console *console)
{
    *console = (struct console){.is_first_rank = true};
    pthread_mutex_init(&console->lock, NULL);
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool is_dumb = !term || !*term || strcmp(term, "dumb") == 0;
    console->is_terminal = isatty(STDERR_FILENO) && !is_dumb;
    console->uses_color = console->is_terminal && !(no_color && *no_color);
    console->log = (struct log){.write = write_log, .context = console, .level_min = LOG_INFO};
}

void console_deinit(struct console *console)
{
    pthread_mutex_destroy(&console->lock);
}

void console_set_verbosity(struct console *console, bool quiet, bool verbose)
{
    console->quiet = quiet;
    console->log.level_min = quiet ? LOG_WARN : verbose ? LOG_DEBUG : LOG_INFO;
}

void console_set_rank(struct console *console, int rank, int ranks)
{
    if (ranks == 1)
        return;
    snprintf(console->rank_prefix, sizeof console->rank_prefix, "rank %d: ", rank);
    console->is_first_rank = rank == 0;
    if (console->is_first_rank)
        return;
    console->quiet = true;
    if (console->log.level_min == LOG_INFO)
        console->log.level_min = LOG_WARN;
}

void console_error(struct console *console, const struct err *err)
{
    char line[ERR_LINE_BYTES_MAX];
    console_error_line(console, err_format(err, line, sizeof line));
}

void console_error_line(struct console *console, const char *line)
{
    pthread_mutex_lock(&console->lock);
    erase_bar(console);
    fprintf(stderr, "%smillrace:%s %s%s\n", console->uses_color ? "\033[31m" : "",
            console->uses_color ? "\033[0m" : "", console->rank_prefix, line);
    pthread_mutex_unlock(&console->lock);
}

/* Like display_add, but keeps line breaks. Modifies text. */
static void add_lines(struct str *out, char *text)
{
    for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
        display_add(out, line);
        str_add_text(out, text ? "\n" : "");
    }
}

void console_line(struct console *console, const char *format, ...)
{
    if (console->quiet)
        return;
    char *text = NULL;
    struct str display_text = {0};
    va_list arguments;
    va_start(arguments, format);
    bool has_text = vasprintf(&text, format, arguments) >= 0;
    va_end(arguments);
    if (has_text)
        add_lines(&display_text, text);
    pthread_mutex_lock(&console->lock);
    erase_bar(console);
    fprintf(stderr, "%s\n", str_text(&display_text));
    if (!console->is_terminal)
        console->drawn_ns = clock_now_ns(); /* log lines also delay the next progress line */
    pthread_mutex_unlock(&console->lock);
    str_deinit(&display_text);
    free(has_text ? text : NULL);
}

void progress_begin(struct console *console, const char *label, enum progress_unit unit)
{
    pthread_mutex_lock(&console->lock);
    snprintf(console->label, sizeof console->label, "%s", label);
    console->progress = (struct progress){.label = console->label, .unit = unit};
    console->has_update = false;
    console->began_ns = clock_now_ns();
    /* A new bar keeps the redraw time of the bar that it replaces. */
    if (!console->is_bar_active)
        console->drawn_ns = console->began_ns;
    console->is_bar_active = true;
    pthread_mutex_unlock(&console->lock);
}

void progress_update(void *context, uint64_t done, uint64_t total)
{
    struct console *console = context;
    if (console->quiet)
        return;
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&console->lock);
    struct progress *progress = &console->progress;
    if (!console->has_update)
        progress->done_before = done;
    console->has_update = true;
    progress->done = done;
    progress->total = total;
    progress->elapsed_ns = now - console->began_ns;
    uint64_t interval_ns = console->is_terminal ? REDRAW_INTERVAL_NS : LINE_INTERVAL_NS;
    if (console->is_bar_active && now - console->drawn_ns >= interval_ns) {
        draw_bar(console);
        console->drawn_ns = now;
    }
    pthread_mutex_unlock(&console->lock);
}

void progress_end(struct console *console)
{
    pthread_mutex_lock(&console->lock);
    erase_bar(console);
    console->is_bar_active = false;
    pthread_mutex_unlock(&console->lock);
}

void progress_hide(struct console *console)
{
    pthread_mutex_lock(&console->lock);
    erase_bar(console);
    pthread_mutex_unlock(&console->lock);
}
