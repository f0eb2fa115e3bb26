/*
 * check — what must hold of a folder of steps after a crash, whatever it was.
 *
 *   1. Every folder that has a step's name is listed, hence whole; each loads, and its bytes are
 *      those of one version. So does what a step of the same number was put aside for.
 *   2. The steps are those that may be there (expected.h): nothing that was said to be durable is
 *      lost, and retention removed nothing before its successor stood.
 *   3. The newest whole one is what ckpt_find gives.
 *   4. The next owner gets the folder, and all that is temporary is gone then; the steps are still
 *      the same.
 *   5. It saves a further step, which is there, and retention keeps as many as it should.
 */
#ifndef MILLRACE_TESTS_CRASH_CHECK_H
#define MILLRACE_TESTS_CRASH_CHECK_H

#include "tests/crash/expected.h"

enum { CHECK_WHY_BYTES = 1024 };

/* Leaves the folder as 5. left it. Where it fails, why says what of 1. to 5. does not hold. */
bool check_folder(const struct expected *expected, struct io *io, const char *folder,
                  char why[CHECK_WHY_BYTES]);

/* What is there, loaded: 1. alone. */
bool check_steps(const struct plan *plan, struct io *io, const char *folder,
                 struct shelf *ret_found, char why[CHECK_WHY_BYTES]);
/* Nothing temporary is there: of 4. */
bool check_swept(struct io *io, const char *folder, char why[CHECK_WHY_BYTES]);

#endif
