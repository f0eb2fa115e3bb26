/*
 * run_control — the state that decides when a run evaluates, saves and ends.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_CONTROL_H
#define MILLRACE_TRAINER_RUN_RUN_CONTROL_H

#include "trainer/control/early_stop.h"
#include "trainer/control/triggers.h"

struct evaluation {
    bool is_present;
    uint64_t step;
    uint64_t valid_count; /* not saved in checkpoints */
    double loss, accuracy;
};

/* Zero initially. Owner thread. */
struct run_control {
    /* The batch size changes after this step: the run saves, closes and reopens. run->steps: it
     * does not change. */
    uint64_t phase_end_step;
    bool stop_requested; /* by any rank */
    bool time_is_up;     /* first rank only */
    bool save_requested; /* as of the last reduction */
    bool save_has_ended; /* on all ranks, as of the last reduction */
    struct triggers triggers;
    struct evaluation evaluation;
    struct early_stop early_stop;
};

#endif
