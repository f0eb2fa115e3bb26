/*
 * plans — the plans that the crash tests run: sequences of saves that use the folder in different
 * ways.
 */
#ifndef MILLRACE_TESTS_CRASH_PLANS_H
#define MILLRACE_TESTS_CRASH_PLANS_H

#include "tests/crash/sweep.h"

enum { PLANS_COUNT = 7 };

struct known_plan {
    struct plan plan;
    struct step_set before;
};
extern const struct known_plan plans[PLANS_COUNT];

/* Derives a plan from the seed: ranks, steps to keep, jumps forward and back, contents and owners
 * vary. */
struct known_plan plans_make(uint64_t seed);

#endif
