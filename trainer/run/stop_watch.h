/*
 * stop_watch — what a run says and does between the request to stop and its last checkpoint: on the
 * first rank.
 *
 * A step or a save may take minutes, in which the run's own thread says nothing. A thread of the
 * watch looks at the request, so that
 * - the first request is answered at once, with what is to be saved and about how long that takes;
 * - each later one is answered with what the run waits for;
 * - a run that has not ended run.stop_deadline after the first one reports TRAINER_STOP_LATE, on
 *   which the owner of the program ends it: the run's thread may be in a write that never ends.
 *
 * Threads: open and close by the owner of the run; the rest as said.
 */
#ifndef MILLRACE_TRAINER_RUN_STOP_WATCH_H
#define MILLRACE_TRAINER_RUN_STOP_WATCH_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct run;

/* Zeroed at first. */
struct stop_watch {
    const struct run *run; /* borrowed; immutable, as all down to has_thread */
    uint64_t state_bytes;  /* of a checkpoint */
    uint64_t first_step;   /* after which the run went on; 0: it began */
    pthread_t thread;
    bool has_thread; /* on the first rank alone */
    atomic_bool quit;
    _Atomic uint64_t step;    /* the last one that was queued */
    _Atomic uint64_t save_ns; /* how long a save was found to take; 0: none was made */
    atomic_bool is_saving;    /* the last checkpoint */
    pthread_mutex_t mutex;    /* guards what follows */
    uint64_t asked_ns;        /* when the run heard of the first request; 0: not yet */
    unsigned asks;            /* requests that were answered */
    bool is_late;
};

/* Nothing on other ranks than the first. -EAGAIN. */
int stop_watch_open(struct stop_watch *watch, const struct run *run, uint64_t save_ns,
                    struct err *err);
void stop_watch_close(struct stop_watch *watch); /* joins; safe on a zeroed one */

/* By the run's thread. A step was made; a save ended after so long; the run now makes its last
 * save, of which the ranks agreed, at the request of any of them. */
void stop_watch_note_step(struct stop_watch *watch, uint64_t step);
void stop_watch_note_save(struct stop_watch *watch, uint64_t ns);
void stop_watch_begin_last_save(struct stop_watch *watch);

#endif
