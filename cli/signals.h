/*
 * signals — a wish to stop, as a flag that long work looks at.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag; a second SIGINT ends the program at once with status 130.
 */
#ifndef MILLRACE_CLI_SIGNALS_H
#define MILLRACE_CLI_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers (SIGPIPE is ignored from then on: a closed pipe is an error of the write) and gives the flag, which
 * lives for ever: the number of the signal, 0 before any. */
atomic_int *signals_install(void);

#endif
