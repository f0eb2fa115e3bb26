/*
 * doctor_interrupted — Ctrl-C during a probe: the program ends early, like other verbs, and leaves
 * no files in the folder.
 */
#include "cli/verbs/verbs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __real_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags);
int __wrap_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags);

/* The signal to raise while the probe's temporary folder exists. */
static int signal_to_raise;

int __wrap_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags)
{
    int signal = signal_to_raise;
    signal_to_raise = 0;
    if (signal)
        raise(signal);
    return __real_renameat2(old_folder, old_name, new_folder, new_name, flags);
}

/* Examines the folder twice in a separate process, with the table written to a file. Returns the
 * negated status of the verb. */
static int run_doctor(const char *folder, const char *table, int signal)
{
    const char *folders[] = {folder, folder};
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct console console;
        struct err err = {0};
        signal_to_raise = signal;
        int file = open(table, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        void *args = calloc(1, verb_doctor.args_bytes);
        if (!args || dup2(file, STDOUT_FILENO) < 0)
            _exit(99);
        console_init(&console);
        struct invocation invocation = {
            .args = args,
            .common = args,
            .positional = folders,
            .positional_count = 2,
            .console = &console,
            .log = &console.log,
        };
        int status = verb_doctor.run(&invocation, &err);
        fflush(stdout);
        _exit(status == err.code ? -status : 99);
    }
    return child_wait(child);
}

/* The number of times the folder appears as a heading in the table. */
static int count_headings(const char *folder, const char *table)
{
    char count[16];
    assert_int_equal(
        test_run_output(count, sizeof count, "grep -cFx 'folder %s' '%s' || :", folder, table), 0);
    return atoi(count);
}

static void an_interrupted_probe_leaves_nothing(void **state)
{
    (void)state;
    char folder[TEST_PATH_BYTES_MAX], table_folder[TEST_PATH_BYTES_MAX],
        table[TEST_PATH_BYTES_MAX + 8], leftovers[64];
    test_make_folder(folder);
    test_make_folder(table_folder);
    snprintf(table, sizeof table, "%s/table", table_folder);
    /* makes the folder's probe the first one */
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null/x", 1), 0);
    assert_int_equal(run_doctor(folder, table, 0), 0);
    assert_int_equal(count_headings(folder, table), 2);
    assert_int_equal(run_doctor(folder, table, SIGINT), EINTR);
    /* not even for the folder in progress */
    assert_int_equal(count_headings(folder, table), 0);
    assert_int_equal(run_doctor(folder, table, SIGTERM), EINTR);
    assert_int_equal(count_headings(folder, table), 0);
    assert_int_equal(test_run_output(leftovers, sizeof leftovers, "ls -A '%s'", folder), 0);
    assert_string_equal(leftovers, "");
    test_remove_folder(folder);
    test_remove_folder(table_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupted_probe_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
