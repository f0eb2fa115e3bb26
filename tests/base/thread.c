/*
 * thread — threads that the library starts block signals, so the program's own threads get them.
 */
#include "base/os/thread.h"
#include "tests/support/test.h"

#include <signal.h>

static void *read_signal_mask(void *argument)
{
    pthread_sigmask(SIG_SETMASK, NULL, argument);
    return argument;
}

static void a_thread_starts_with_signals_blocked_and_its_starter_keeps_its_own(void **state)
{
    (void)state;
    sigset_t usr1, before, within, after;
    pthread_t thread;
    void *result;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &usr1, &before);
    assert_int_equal(thread_start(&thread, read_signal_mask, &within), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_ptr_equal(result, &within);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_true(sigismember(&within, signals[i]));
        assert_int_equal(sigismember(&after, signals[i]), signals[i] == SIGUSR1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_starts_with_signals_blocked_and_its_starter_keeps_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
