/*
 * doctor_interrupted — Ctrl-C in the midst of a probe: the program ends early, and nothing is left in the folder.
 */
#include "cli/verbs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int __real_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags);
int __wrap_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags);

/* Comes while the probe's temporary folder is there. */
static int signal_wanted;

int __wrap_renameat2(int old_folder, const char *old_name, int new_folder, const char *new_name,
                     unsigned flags)
{
    int wanted = signal_wanted;
    signal_wanted = 0;
    if (wanted)
        raise(wanted);
    return __real_renameat2(old_folder, old_name, new_folder, new_name, flags);
}

/* Looks at the folder, in a process of its own. Its exit status. */
static int examine(const char *folder, int signal)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct console console;
        struct err err = {0};
        signal_wanted = signal;
        int nowhere = open("/dev/null", O_WRONLY);
        void *args = calloc(1, verb_doctor.args_bytes);
        if (!args || dup2(nowhere, STDOUT_FILENO) < 0)
            _exit(99);
        console_init(&console);
        struct invocation invocation = {
            .args = args,
            .common = args,
            .positional = &folder,
            .positional_count = 1,
            .console = &console,
            .log = &console.log,
        };
        _exit(verb_doctor.run(&invocation, &err));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void an_interrupted_probe_leaves_nothing(void **state)
{
    (void)state;
    char folder[TEST_PATH_BYTES_MAX], left[64];
    test_make_folder(folder);
    /* elsewhere, so that the first probe is the folder's */
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null/x", 1), 0);
    assert_int_equal(examine(folder, 0), EXIT_DONE);
    assert_int_equal(examine(folder, SIGINT), EXIT_INTERRUPTED);
    assert_int_equal(examine(folder, SIGTERM), EXIT_INTERRUPTED);
    assert_int_equal(test_run_output(left, sizeof left, "ls -A '%s'", folder), 0);
    assert_string_equal(left, "");
    test_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupted_probe_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
