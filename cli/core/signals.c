#include "cli/core/signals.h"

#include "cli/core/exit_status.h"
#include "cli/core/temporary_files.h"

#include <assert.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static atomic_int stop_signal;
static struct signal_counts counts;
static atomic_bool counts_only;
static _Atomic(const char *) exit_text;
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2 &&
                  ATOMIC_POINTER_LOCK_FREE == 2,
              "a handler may access only lock-free atomics");

static void on_signal(int signal)
{
    bool is_second_sigint = signal == SIGINT && atomic_fetch_add(&counts.interrupts, 1) > 0;
    if (is_second_sigint && !atomic_load(&counts_only)) {
        const char *text = atomic_load(&exit_text);
        ssize_t written = text ? write(STDERR_FILENO, text, strlen(text)) : 0;
        (void)written;
        temporary_files_remove_all();
        _exit(EXIT_INTERRUPTED);
    }
    atomic_fetch_add(&counts.stops, 1);
    atomic_store(&stop_signal, signal);
}

void signals_set_exit_text(const char *text)
{
    atomic_store(&exit_text, text);
}

atomic_int *signals_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    return &stop_signal;
}

const atomic_int *signals_stop_flag(void)
{
    return &stop_signal;
}

const struct signal_counts *signals_install_counting(void)
{
    atomic_store(&counts_only, true);
    signals_install();
    return &counts;
}

const struct signal_counts *signals_get_counts(void)
{
    return &counts;
}

void signals_ignore_sigpipe(void)
{
    signal(SIGPIPE, SIG_IGN);
}
