/*
 * engines — the cases of a program over each engine for local files.
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {...};
 *         return engines_run(tests);               // each case once an engine
 *     }
 *
 * The cases open what they read by with engines_options(), as scratch.h's set-up does. An engine
 * that is not to be had here is skipped and says so.
 */
#ifndef MILLRACE_TESTS_SUPPORT_ENGINES_H
#define MILLRACE_TESTS_SUPPORT_ENGINES_H

#include "io/io.h"
#include "tests/support/test.h"

/* That the running case is about; IO_ENGINE_AUTO outside of engines_run. */
enum io_engine engines_current(void);
/* Options with that engine and zeros. */
struct io_options engines_options(void);

/* NULL, or why there is no such engine here. */
const char *engines_lack(enum io_engine engine);

int engines_run_all(const struct CMUnitTest *tests, size_t count);
int engines_run_one(enum io_engine engine, const struct CMUnitTest *tests, size_t count);
#define engines_run(tests) engines_run_all((tests), sizeof(tests) / sizeof((tests)[0]))

#endif
