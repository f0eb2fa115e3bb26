/*
 * plans — what is crashed: the works of a saver that differ in what they do to its folder.
 */
#ifndef MILLRACE_TESTS_CRASH_PLANS_H
#define MILLRACE_TESTS_CRASH_PLANS_H

#include "tests/crash/sweep.h"

enum { PLANS_COUNT = 7 };

struct known_plan {
    struct plan plan;
    struct shelf before;
};
extern const struct known_plan plans[PLANS_COUNT];

/* A plan of its own for each seed: other ranks, numbers kept, steps forwards and back, contents,
 * owners. */
struct known_plan plans_make(uint64_t seed);

#endif
