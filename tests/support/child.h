/*
 * child — starts processes that hold a resource until they are killed, and reads exit statuses.
 */
#ifndef MILLRACE_TESTS_SUPPORT_CHILD_H
#define MILLRACE_TESTS_SUPPORT_CHILD_H

#include <sys/types.h>

/* Starts a process that calls begin(context), which must return 0, and then sleeps. Any other
 * result fails the case. */
pid_t child_start(int (*begin)(void *context), void *context);
/* Sends SIGKILL and waits for the process to end. */
void child_kill(pid_t child);
/* Waits for a child that ends by itself. Returns its exit status, or 128 + n if signal n ended
 * it. */
int child_wait(pid_t child);

#endif
