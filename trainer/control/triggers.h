/*
 * triggers — decides when a run saves, and when it must stop to meet its time limit. Pure: the
 * caller passes clock readings.
 *
 * All ranks agree on saves by step and at the end of an epoch. Only the first rank evaluates the
 * clock (triggers_save_by_clock, triggers_must_stop); the step's reduction distributes its
 * decision.
 *
 * Before its limit, a run reserves time for one more step, the steps already queued, two saves (one
 * in progress, and the last) and one second. Until a save is measured, it is estimated at 100 MB/s.
 * A run makes at least one step, so repeating the same command eventually finishes the run.
 *
 * Owner thread.
 */
#ifndef MILLRACE_TRAINER_CONTROL_TRIGGERS_H
#define MILLRACE_TRAINER_CONTROL_TRIGGERS_H

#include "trainer/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct triggers_options {
    struct config_interval every; /* 0: never */
    bool on_epoch_end;
    uint64_t epoch_steps; /* 0: unknown, no epoch ends */
    uint64_t first_step;  /* number of steps before an epoch of this length */
    uint64_t max_time_ns; /* 0: none */
    uint64_t began_ns;
    uint64_t before_ns;   /* part of max_time used by earlier attempts */
    uint64_t state_bytes; /* of this rank's part */
    /* Maximum number of unfinished steps when the run checks whether to stop. */
    uint64_t steps_ahead;
};

struct triggers {
    struct triggers_options options;
    uint64_t step_began_ns;
    uint64_t saved_ns;         /* start of the last save, or of the run before the first save */
    uint64_t step_ns, save_ns; /* measured or estimated durations */
    bool has_step, has_saved;  /* a step has begun; save_ns is measured */
};

void triggers_init(struct triggers *triggers, const struct triggers_options *options);
/* Continues with a different batch size and hence epoch length. Keeps measured times. */
void triggers_change_batch(struct triggers *triggers, const struct triggers_options *options);

/* Ignores the clock. step counts from 1. */
bool triggers_save_by_step(const struct triggers *triggers, uint64_t step);
bool triggers_save_by_clock(const struct triggers *triggers, uint64_t now_ns);
/* Whether the remaining time suffices only for the last checkpoint. */
bool triggers_must_stop(const struct triggers *triggers, uint64_t now_ns);

/* Record measured times. The estimate is the longest time; a step's estimate decays with each
 * shorter step. */
void triggers_begin_step(struct triggers *triggers, uint64_t now_ns);
void triggers_end_step(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save_begun(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save(struct triggers *triggers, uint64_t ns);
/* A failed save can only raise the estimate, which still does not count as measured. */
void triggers_note_failed_save(struct triggers *triggers, uint64_t ns);

#endif
