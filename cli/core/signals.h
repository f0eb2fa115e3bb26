/*
 * signals — a stop request: a flag that long-running work polls.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag. A second SIGINT removes half-written files
 * (temporary_files.h) and exits with status 130, unless signals are counted. SIGTERM and SIGUSR1
 * may repeat, because batch systems and timeout(1) resend them.
 */
#ifndef MILLRACE_CLI_CORE_SIGNALS_H
#define MILLRACE_CLI_CORE_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers. Returns the flag, valid forever: the signal's number, or 0. */
atomic_int *signals_install(void);

/* The flag, without installing handlers. */
const atomic_int *signals_flag(void);

/* For a process that must end others first: counts stop requests, and the SIGINTs among them,
 * instead of exiting on the second SIGINT. */
struct signals_counts {
    atomic_uint stops, interrupts;
};
const struct signals_counts *signals_install_counting(void);
/* The counts, without installing handlers. */
const struct signals_counts *signals_counts(void);

/* Text that a second SIGINT writes to stderr before it exits; NULL: none. Must stay valid
 * forever. */
void signals_set_exit_text(const char *text);

/* Ignores SIGPIPE. */
void signals_outlive_pipes(void);

#endif
