/*
 * thread — starts threads with signals blocked.
 */
#ifndef MILLRACE_BASE_OS_THREAD_H
#define MILLRACE_BASE_OS_THREAD_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a joinable thread; signals go to the program's own threads. 0 or -errno. */
int thread_start(pthread_t *ret_thread, void *(*main)(void *argument), void *argument);
/* Initializes a condition variable whose timed waits use clock_now_ns. */
void thread_cond_init(pthread_cond_t *cond);

#ifdef __cplusplus
}
#endif

#endif
