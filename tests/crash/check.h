/*
 * check — the invariants that a folder of steps satisfies after any crash.
 *
 *   1. Every folder with a step's name is listed, hence complete. Each step loads with the bytes of
 *      a single version, and so does the backup of a step that was replaced by one with the same
 *      number.
 *   2. The set of steps is possible (expected.h): no durable step is lost, and retention removed
 *      nothing before its successor was durable.
 *   3. ckpt_find returns the newest complete step.
 *   4. The next owner acquires the folder, after which no temporary files remain and the steps are
 *      unchanged.
 *   5. The next owner saves another step, which is then present, and retention keeps the right
 *      number of steps.
 */
#ifndef MILLRACE_TESTS_CRASH_CHECK_H
#define MILLRACE_TESTS_CRASH_CHECK_H

#include "tests/crash/expected.h"

enum { CHECK_WHY_BYTES = 1024 };

/* Leaves the step that invariant 5 saves. On failure, why describes the violated invariant. */
bool check_folder(const struct expected *expected, struct io *io, const char *folder,
                  char why[CHECK_WHY_BYTES]);

/* Loads the steps, checking only invariant 1. */
bool check_steps(const struct plan *plan, struct io *io, const char *folder,
                 struct step_set *ret_found, char why[CHECK_WHY_BYTES]);
/* Checks that nothing temporary is left, part of invariant 4. */
bool check_no_leftovers(struct io *io, const char *folder, char why[CHECK_WHY_BYTES]);

#endif
