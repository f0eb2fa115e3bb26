/*
 * triggers — when a run saves, and when it stops for its time limit. Pure: readings of a clock go
 * in.
 *
 * Saves by steps and at the end of an epoch are the same on all ranks by construction. What the
 * clock decides (triggers_save_by_clock, triggers_must_stop) is asked on the first rank alone and
 * travels to the others with the step's own reduction. What a checkpoint holds depends on none of
 * it.
 *
 * A run stops so early before its limit that one more step, those that are queued when it is asked,
 * and two saves (one that is in progress, and the last) fit in, each as long as it was found to
 * take, and a second. Until a save was measured, it is taken to write 100 MB/s. Before its first
 * step no run stops, however short its limit: the same command again and again comes to the end.
 *
 * Threads: the owner's.
 */
#ifndef MILLRACE_TRAINER_RUN_TRIGGERS_H
#define MILLRACE_TRAINER_RUN_TRIGGERS_H

#include "trainer/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct triggers_options {
    struct config_period every; /* 0: never */
    bool on_epoch_end;
    uint64_t epoch_steps; /* of an epoch; 0: unknown, then none ends */
    uint64_t first_step;  /* steps before one of those epochs */
    uint64_t max_time_ns; /* 0: none */
    uint64_t began_ns;    /* when the run began */
    uint64_t before_ns;   /* what of max_time had passed by then, in earlier attempts */
    uint64_t state_bytes; /* that this rank saves */
    uint64_t
        /* at most so many are queued, and not done, when it is asked whether to stop */
        steps_ahead;
};

struct triggers {
    struct triggers_options options;
    uint64_t step_began_ns;
    uint64_t saved_ns;         /* when the last save began; the run's beginning before any */
    uint64_t step_ns, save_ns; /* how long they take */
    bool has_step, has_saved;  /* a step has begun; save_ns is measured */
};

void triggers_init(struct triggers *triggers, const struct triggers_options *options);
/* The run goes on with another batch, hence other epochs; what was measured, and when it saved
 * last, stays. */
void triggers_turn(struct triggers *triggers, const struct triggers_options *options);

/* Is a save due after step (of all, from 1), by the steps alone? */
bool triggers_save_by_step(const struct triggers *triggers, uint64_t step);
bool triggers_save_by_clock(const struct triggers *triggers, uint64_t now_ns);
/* Is there no time left but for the last checkpoint? */
bool triggers_must_stop(const struct triggers *triggers, uint64_t now_ns);

/* What was measured: the longest counts, of steps less and less with each that is shorter. */
void triggers_begin_step(struct triggers *triggers, uint64_t now_ns);
void triggers_end_step(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save_begun(struct triggers *triggers, uint64_t now_ns);
void triggers_note_save(struct triggers *triggers, uint64_t ns);
/* How soon a save failed says nothing of how long one takes, but that it takes longer: a guess
 * stays one. */
void triggers_note_failed_save(struct triggers *triggers, uint64_t ns);

#endif
