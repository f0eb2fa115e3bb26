/*
 * expected — which steps may be in a folder after a crash, and which must be.
 *
 * A save that was reported durable is present. A save that had only begun may be present or absent.
 * A step that retention removes after a successful save may be absent. So there is one variant for
 * each subset of undecided saves, and the steps found must match one of the variants: each of its
 * steps is present, in that version, and any other step found was saved earlier (its removal was in
 * progress).
 */
#ifndef MILLRACE_TESTS_CRASH_EXPECTED_H
#define MILLRACE_TESTS_CRASH_EXPECTED_H

#include "tests/crash/history.h"
#include "tests/crash/workload.h"

enum { STEP_SET_MAX = 32 };

/* Steps and their versions. */
struct step_set {
    struct plan_save steps[STEP_SET_MAX];
    unsigned count;
};

struct expected {
    const struct plan *plan;
    struct step_set before; /* before the plan began */
    bool has_begun[PLAN_SAVES_MAX], is_done[PLAN_SAVES_MAX];
};

/* A save, followed by the removal of steps beyond the number that the plan keeps. */
void step_set_save(struct step_set *step_set, struct plan_save save, uint32_t keep);
/* Returns the step's entry; NULL if absent. */
const struct plan_save *step_set_find(const struct step_set *step_set, uint64_t step);
bool step_set_equals(const struct step_set *a, const struct step_set *b);

/* Determine which saves have begun and which are done: from the notes in a history up to the
 * instant, or from the number of notes. */
void expected_from_history(struct expected *expected, const struct history *history,
                           uint32_t instant);
void expected_from_note_count(struct expected *expected, unsigned notes_count);

/* Whether the set of steps found is possible; if not, why gives the reason. */
bool expected_allows(const struct expected *expected, const struct step_set *found, char *why,
                     size_t why_bytes);

#endif
