/*
 * triggers — decides when a run saves, and when it stops for its time limit. Pure: the caller
 * passes clock readings.
 *
 * Saves by step and at the end of an epoch are the same on all ranks by construction. Only the
 * first rank evaluates the clock (triggers_save_by_clock, triggers_must_stop); its decision travels
 * to the others with the step's reduction. The contents of a checkpoint do not depend on any of
 * this.
 *
 * A run stops early enough before its limit for one more step, the steps queued at that time, two
 * saves (one in progress, and the last), each as long as measured, and one second. Until a save is
 * measured, 100 MB/s is assumed. No run stops before its first step, however short its limit, so
 * repeating the same command eventually finishes the run.
 *
 * Threads: the owner's.
 */
#ifndef MILLRACE_TRAINER_CONTROL_TRIGGERS_H
#define MILLRACE_TRAINER_CONTROL_TRIGGERS_H

#include "trainer/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct triggers_options {
    struct config_period every; /* 0: never */
    bool on_epoch_end;
    uint64_t epoch_steps; /* per epoch; 0: unknown, no epoch ends */
    uint64_t first_step;  /* steps before one of those epochs */
    uint64_t max_time_ns; /* 0: none */
    uint64_t began_ns;
    uint64_t before_ns;   /* part of max_time used by earlier attempts */
    uint64_t state_bytes; /* of this rank's part */
    /* Steps that may be queued and unfinished when the run checks whether to stop. */
    uint64_t

        steps_ahead;
};

struct triggers {
    struct triggers_options options;
    uint64_t step_began_ns;
    uint64_t saved_ns;         /* start of the last save; before any, of the run */
    uint64_t step_ns, save_ns; /* measured or assumed durations */
    bool has_step, has_saved;  /* a step has begun; save_ns is measured */
};

void triggers_init(struct triggers *triggers, const struct triggers_options *options);
/* Continues with another batch, hence other epochs. Measured times and the time of the last save
 * are kept. */
void triggers_change_batch(struct triggers *triggers, const struct triggers_options *options);

/* Whether a save is due after step (counted from 1), by the steps alone. */
bool triggers_save_by_step(const struct triggers *triggers, uint64_t step);
bool triggers_save_by_clock(const struct triggers *triggers, uint64_t now_ns);
/* Whether there is only time left for the last checkpoint. */
bool triggers_must_stop(const struct triggers *triggers, uint64_t now_ns);

/* Record measured times. The longest counts; for steps it decays with each shorter one. */
void triggers_begin_step(struct triggers *triggers, uint64_t now_ns);
void triggers_end_step(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save_begun(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save(struct triggers *triggers, uint64_t ns);
/* A failed save gives only a lower bound of a save's duration: the estimate can grow, but still
 * counts as assumed. */
void triggers_note_failed_save(struct triggers *triggers, uint64_t ns);

#endif
