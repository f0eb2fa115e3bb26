/*
 * interrupt — Ctrl-C while a child process draws a progress bar on a pseudo-terminal.
 */
#include "cli/core/console.h"
#include "cli/core/signals.h"
#include "cli/verbs/verb.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 50 };

static void draw_bar(struct console *console)
{
    progress_begin(console, "waiting", PROGRESS_ITEMS);
    for (uint64_t done = 0; !console->is_bar_drawn; done++)
        progress_update(console, done, UINT64_MAX);
}

static void interrupt_twice(struct console *console)
{
    signals_install();
    draw_bar(console);
    raise(SIGINT);
    raise(SIGINT);
}

static void interrupt_twice_after_the_bar(struct console *console)
{
    signals_install();
    draw_bar(console);
    progress_end(console);
    raise(SIGINT);
    raise(SIGINT);
}

static void print_line_and_error(struct console *console)
{
    struct err err = {0};
    draw_bar(console);
    console_line(console, "a line");
    draw_bar(console);
    log_line(&console->log, LOG_WARN, "a warning");
    draw_bar(console);
    err_set(&err, -1, "an error");
    console_error(console, &err);
}

/* Returns the child's exit status and its terminal output. */
static int run_on_terminal(void (*action)(struct console *console), const char *term, char *text,
                           size_t bytes)
{
    struct winsize size = {.ws_row = 20, .ws_col = COLUMNS};
    int master;
    pid_t child = forkpty(&master, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0) {
        struct console console;
        setenv("TERM", term, 1);
        setenv("NO_COLOR", "1", 1);
        console_init(&console);
        action(&console);
        _exit(EXIT_DONE);
    }
    size_t used = 0;
    ssize_t read_bytes;
    while (used + 1 < bytes && (read_bytes = read(master, text + used, bytes - used - 1)) > 0)
        used += (size_t)read_bytes;
    text[used] = '\0';
    close(master);
    return child_wait(child);
}

static bool ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static void a_second_interrupt_moves_the_cursor_to_a_new_line(void **state)
{
    (void)state;
    char text[1 << 14];
    assert_int_equal(run_on_terminal(interrupt_twice, "xterm", text, sizeof text),
                     EXIT_INTERRUPTED);
    assert_non_null(strstr(text, "waiting"));
    assert_true(ends_with(text, "\r\n"));
}

static void an_interrupt_without_a_bar_writes_nothing(void **state)
{
    (void)state;
    char text[1 << 14];
    assert_int_equal(run_on_terminal(interrupt_twice_after_the_bar, "xterm", text, sizeof text),
                     EXIT_INTERRUPTED);
    assert_true(ends_with(text, "\r\033[K"));
}

static void log_lines_erase_the_bar_first(void **state)
{
    (void)state;
    char text[1 << 14];
    assert_int_equal(run_on_terminal(print_line_and_error, "xterm", text, sizeof text), EXIT_DONE);
    assert_non_null(strstr(text, "\r\033[Ka line\r\n"));
    assert_non_null(strstr(text, "\r\033[Kwarning: a warning\r\n"));
    assert_true(ends_with(text, "\r\033[Kmillrace: an error\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_interrupt_moves_the_cursor_to_a_new_line),
        cmocka_unit_test(an_interrupt_without_a_bar_writes_nothing),
        cmocka_unit_test(log_lines_erase_the_bar_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
