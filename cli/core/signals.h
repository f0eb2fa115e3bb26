/*
 * signals — a wish to stop, as a flag that long work looks at.
 *
 * SIGTERM, SIGINT and SIGUSR1 set the flag; a second SIGINT ends the program at once with status
 * 130, unless somebody counts; half-written files go then (io/temporary_registry.h). SIGTERM and
 * SIGUSR1 may come as often as they like, for batch systems and timeout(1) send them again.
 */
#ifndef MILLRACE_CLI_CORE_SIGNALS_H
#define MILLRACE_CLI_CORE_SIGNALS_H

#include <stdatomic.h>

/* Installs the handlers and gives the flag, which lives for ever: the number of the signal, 0
 * before any. */
atomic_int *signals_install(void);

/* The flag where the handlers may not be installed: then it stays 0. */
const atomic_int *signals_flag(void);

/* The same for who has to end others before itself: how often a wish to stop came, and how often it
 * was SIGINT, which never ends the program. */
struct signals_counts {
    atomic_uint wishes, interrupts;
};
const struct signals_counts *signals_install_counting(void);
/* How often such signals came, whatever they do. */
const struct signals_counts *signals_counts(void);

/* What a second SIGINT writes to stderr before it ends the program, so that a line that stands
 * there is ended; NULL: nothing. text lives for ever. */
void signals_set_last_words(const char *text);

/* For work that matters more than who watches it: a pipe closed at its other end no longer ends the
 * program. */
void signals_outlive_pipes(void);

#endif
