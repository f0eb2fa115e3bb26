/*
 * crash_case — common setup for the crash tests: two folders, two backends, one sweep over them.
 *
 *     cmocka_unit_test_setup_teardown(a_behavior, crash_set_up, crash_tear_down)
 *     struct sweep sweep = crash_prepare(&plans[i]);
 */
#ifndef MILLRACE_TESTS_CRASH_CRASH_CASE_H
#define MILLRACE_TESTS_CRASH_CRASH_CASE_H

#include "tests/crash/plans.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

int crash_set_up(void **state);
int crash_tear_down(void **state);

/* Prepares a sweep of the plan over the backend of scratch.h, and its folder. Release it with
 * sweep_deinit. */
struct sweep crash_prepare(const struct known_plan *known);
/* Returns a new seed on each call, and prints it. */
uint64_t crash_seed(void);
void crash_print(const struct sweep_counts *counts);

#endif
