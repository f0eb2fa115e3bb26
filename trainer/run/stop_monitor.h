/*
 * stop_monitor — the first rank's messages between a stop request and the last checkpoint.
 *
 * A step or a save may block the run's thread for minutes, so a separate thread polls for requests:
 * - It answers the first request with the size of the state and the estimated time, later requests
 *   with what the run is waiting for.
 * - If run.stop_deadline passes first, it reports TRAINER_STOP_LATE; the owner then ends the
 *   process.
 *
 * Call all functions from the run's thread.
 */
#ifndef MILLRACE_TRAINER_RUN_STOP_MONITOR_H
#define MILLRACE_TRAINER_RUN_STOP_MONITOR_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct run;

/* Zero initially. */
struct stop_monitor {
    const struct run *run; /* borrowed; all fields down to has_thread are constant */
    uint64_t state_bytes;  /* of a checkpoint */
    uint64_t resumed_step; /* 0: a new run */
    pthread_t thread;
    bool has_thread; /* only on the first rank */
    atomic_bool quit;
    _Atomic uint64_t step;    /* last queued step */
    _Atomic uint64_t save_ns; /* duration of the last save; 0: none yet */
    atomic_bool is_saving;    /* the last save has begun */
    pthread_mutex_t mutex;    /* guards the following fields */
    uint64_t requested_ns;    /* of the first request; 0: none yet */
    unsigned answered_count;  /* requests answered */
    bool is_late;
};

/* Does nothing except on the first rank. -EAGAIN: no thread is available. */
int stop_monitor_open(struct stop_monitor *monitor, const struct run *run, uint64_t save_ns,
                      struct err *err);
void stop_monitor_close(struct stop_monitor *monitor); /* joins; safe on a zeroed struct */

void stop_monitor_note_step(struct stop_monitor *monitor, uint64_t step);
void stop_monitor_note_save(struct stop_monitor *monitor, uint64_t duration_ns);
void stop_monitor_begin_last_save(struct stop_monitor *monitor);

#endif
