/*
 * thread — starts threads with signals blocked.
 */
#ifndef MILLRACE_BASE_OS_THREAD_H
#define MILLRACE_BASE_OS_THREAD_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a joinable thread; the program's own threads handle the signals. 0 or -errno. */
int thread_start(pthread_t *ret_thread, void *(*main)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
