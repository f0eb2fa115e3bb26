/*
 * signals — a wish to stop, as a flag that long work looks at.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag; a second SIGINT ends the program at once with status 130.
 */
#ifndef MILLRACE_CLI_SIGNALS_H
#define MILLRACE_CLI_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers and gives the flag, which lives for ever: the number of the signal, 0 before any. */
atomic_int *signals_install(void);

/* What a second SIGINT writes to stderr before it ends the program, so that a line that stands there is ended; NULL: nothing. text
 * lives for ever. */
void signals_set_last_words(const char *text);

/* For work that matters more than who watches it: a pipe closed at its other end no longer ends the program. */
void signals_outlive_pipes(void);

#endif
