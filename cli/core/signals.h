/*
 * signals — the stop request, a flag that long-running work polls.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag. A second SIGINT removes half-written files
 * (temporary_files.h) and exits with status 130, unless signals are counted. SIGTERM and SIGUSR1
 * may repeat, because batch systems and timeout(1) resend them.
 */
#ifndef MILLRACE_CLI_CORE_SIGNALS_H
#define MILLRACE_CLI_CORE_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers. Returns the flag: the signal's number, or 0. It stays valid. */
atomic_int *signals_install(void);

/* Returns the flag, without installing handlers. */
const atomic_int *signals_stop_flag(void);

/* Counts stop requests and the SIGINTs among them, for a process that must end others first. A
 * second SIGINT does not exit. */
struct signal_counts {
    atomic_uint stops, interrupts;
};
const struct signal_counts *signals_install_counting(void);
/* Returns the counts, without installing handlers. */
const struct signal_counts *signals_get_counts(void);

/* text: written to stderr when a second SIGINT exits; NULL: none. Must stay valid forever. */
void signals_set_exit_text(const char *text);

void signals_ignore_sigpipe(void);

#endif
