/*
 * gate — holds threads at a chosen place, so that tests do not depend on timing.
 *
 *     gate_shut(&gate);
 *     ... start work that makes another thread call gate_pass(&gate) ...
 *     gate_wait_for_threads(&gate, 1);     // that thread is held now
 *     ... check what other threads can do ...
 *     gate_open(&gate);
 *
 * There is no timeout; the test program's time limit applies (TIMEOUT of mr_test).
 *
 * May be called from any thread.
 */
#ifndef MILLRACE_TESTS_SUPPORT_GATE_H
#define MILLRACE_TESTS_SUPPORT_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_shut;
    unsigned waiting_count;
};

/* Initializer; no cleanup is needed. */
#define GATE_OPEN                                                                                  \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                    \
    }

void gate_shut(struct gate *gate);
void gate_open(struct gate *gate);
/* Returns at once if the gate is open, otherwise when it is opened. */
void gate_pass(struct gate *gate);
/* Waits until this many threads are held. */
void gate_wait_for_threads(struct gate *gate, unsigned count);

/* Yields briefly to other threads: the body of a polling loop. */
void gate_pause(void);

/* True while a thread of this process (an id as from gettid) sleeps in the kernel, waiting for a
 * lock, a condition or another thread. Lets a test see from outside that a call blocks. */
bool gate_is_asleep(pid_t thread);

#endif
