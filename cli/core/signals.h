/*
 * signals — a stop request, as a flag that long work polls.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag. A second SIGINT removes half-written files
 * (temporary_files.h) and exits immediately with status 130, unless signals are
 * counted. SIGTERM and SIGUSR1 may repeat, because batch systems and timeout(1) resend them.
 */
#ifndef MILLRACE_CLI_CORE_SIGNALS_H
#define MILLRACE_CLI_CORE_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers. Returns the flag, valid forever: the signal's number, 0 before any. */
atomic_int *signals_install(void);

/* The flag without installing handlers; it stays 0 if they are not installed. */
const atomic_int *signals_flag(void);

/* For a process that must end others first: counts stop requests, and SIGINTs among them, and never
 * exits on one. */
struct signals_counts {
    atomic_uint stops, interrupts;
};
const struct signals_counts *signals_install_counting(void);
/* The same counts without installing handlers. */
const struct signals_counts *signals_counts(void);

/* Text that a second SIGINT writes to stderr before it exits, to end an unfinished line; NULL:
 * none. Must stay valid forever. */
void signals_set_exit_text(const char *text);

/* A closed pipe no longer kills the program. */
void signals_outlive_pipes(void);

#endif
