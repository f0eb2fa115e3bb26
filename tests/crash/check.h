/*
 * check — the invariants of a folder of steps after any crash.
 *
 *   1. Every folder with a step's name is listed, hence complete. Each loads, with the bytes of a
 *      single version. The same holds for the backup of a replaced step of the same number.
 *   2. The steps are possible ones (expected.h): no durable step is lost, and retention removed
 *      nothing before its successor was durable.
 *   3. ckpt_find returns the newest complete step.
 *   4. The next owner acquires the folder, and then no temporary files remain; the steps are
 *      unchanged.
 *   5. The next owner saves another step, which is present, and retention keeps the right number.
 */
#ifndef MILLRACE_TESTS_CRASH_CHECK_H
#define MILLRACE_TESTS_CRASH_CHECK_H

#include "tests/crash/expected.h"

enum { CHECK_WHY_BYTES = 1024 };

/* Leaves the folder as after 5. On failure, why says which of 1. to 5. does not hold. */
bool check_folder(const struct expected *expected, struct io *io, const char *folder,
                  char why[CHECK_WHY_BYTES]);

/* Loads the steps: checks only 1. */
bool check_steps(const struct plan *plan, struct io *io, const char *folder,
                 struct step_set *ret_found, char why[CHECK_WHY_BYTES]);
/* Checks that nothing temporary is left: part of 4. */
bool check_swept(struct io *io, const char *folder, char why[CHECK_WHY_BYTES]);

#endif
