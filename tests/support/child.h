/*
 * child — another process: one that has something until it is killed, and how one ended.
 */
#ifndef MILLRACE_TESTS_SUPPORT_CHILD_H
#define MILLRACE_TESTS_SUPPORT_CHILD_H

#include <sys/types.h>

/* A process in which begin(context) has returned 0, and that does nothing more. Another result
 * fails the case. */
pid_t child_start(int (*begin)(void *context), void *context);
/* By SIGKILL; returns when it is gone. */
void child_kill(pid_t child);
/* Of any child that ends by itself, waited for: its exit status, or 128 + n where signal n ended
 * it. */
int child_wait(pid_t child);

#endif
