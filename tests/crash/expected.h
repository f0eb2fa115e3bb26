/*
 * expected — which steps may, and which must, be in a folder after a crash.
 *
 * Saves that were said to be durable are; one that had begun may be or not; and what each that came
 * to be let retention remove may be gone. So there is a world for each answer to "which of the
 * undecided ones came to be", and what is found must be one of them: each step of that world is
 * there in its version, and whatever else is there was saved at some time (its removal was under
 * way).
 */
#ifndef MILLRACE_TESTS_CRASH_EXPECTED_H
#define MILLRACE_TESTS_CRASH_EXPECTED_H

#include "tests/crash/history.h"
#include "tests/crash/subject.h"

enum { SHELF_MAX = 32 };

/* Steps with their versions. */
struct shelf {
    struct plan_save steps[SHELF_MAX];
    unsigned count;
};

struct expected {
    const struct plan *plan;
    struct shelf before; /* the plan began */
    bool has_begun[PLAN_SAVES_MAX], is_done[PLAN_SAVES_MAX];
};

/* The save, and the removal of what keeping the plan's number leaves over. */
void shelf_save(struct shelf *shelf, struct plan_save save, uint32_t keep);
/* Of the step; NULL where there is none. */
const struct plan_save *shelf_find(const struct shelf *shelf, uint64_t step);
bool shelf_equals(const struct shelf *a, const struct shelf *b);

/* Sets what has begun and what is done: by what a history says until the instant, or by the number
 * of things that were said. */
void expected_by_history(struct expected *expected, const struct history *history,
                         uint32_t instant);
void expected_by_count(struct expected *expected, unsigned said);

/* Whether what was found can be; why says why not. */
bool expected_holds(const struct expected *expected, const struct shelf *found, char *why,
                    size_t why_bytes);

#endif
