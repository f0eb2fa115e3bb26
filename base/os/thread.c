/*
 * thread — see thread.h.
 */
#include "base/os/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, void *(*main)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret_thread, NULL, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -failed;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}
