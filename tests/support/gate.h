/*
 * gate — threads held at a chosen place, so that a test decides what happens meanwhile, however
 * fast or slow the machine is.
 *
 *     gate_shut(&gate);
 *     ... begin what makes another thread call gate_pass(&gate) ...
 *     gate_await(&gate, 1);     // it stands there now
 *     ... what must be possible meanwhile ...
 *     gate_open(&gate);
 *
 * What never comes is ended by the program's own time limit (TIMEOUT of mr_test), not here.
 *
 * Threads: any.
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

/* To begin with; it needs no end. */
#define GATE_OPEN                                                                                  \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                    \
    }

void gate_shut(struct gate *gate);
void gate_open(struct gate *gate);
/* Returns at once where it is open, else when it is opened. */
void gate_pass(struct gate *gate);
/* Until so many threads stand before it. */
void gate_await(struct gate *gate, unsigned count);

/* A moment for the other threads: the body of a loop that waits for a condition of theirs. */
void gate_pause(void);

/* True while a thread of this process (as gettid names it) sleeps in the kernel, for a lock, a
 * condition, another thread: how one sees from outside that a call blocks. */
bool gate_is_asleep(pid_t thread);

#endif
