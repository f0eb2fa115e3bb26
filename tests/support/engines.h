/*
 * engines — runs a program's cases once with each engine for local files.
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {...};
 *         return engines_run(tests);               // each case once per engine
 *     }
 *
 * The cases open their backend with engines_options(), as scratch.h's set-up does. An engine that
 * is unavailable here is skipped with a message.
 */
#ifndef MILLRACE_TESTS_SUPPORT_ENGINES_H
#define MILLRACE_TESTS_SUPPORT_ENGINES_H

#include "io/io.h"
#include "tests/support/test.h"

/* The engine of the running case; IO_ENGINE_AUTO outside of engines_run. */
enum io_engine engines_current(void);
/* Options with that engine; all other members are zero. */
struct io_options engines_options(void);

/* NULL if the engine is available here, otherwise the reason. */
const char *engines_skip_reason(enum io_engine engine);

int engines_run_all(const struct CMUnitTest *tests, size_t count);
int engines_run_one(enum io_engine engine, const struct CMUnitTest *tests, size_t count);
#define engines_run(tests) engines_run_all((tests), sizeof(tests) / sizeof((tests)[0]))

#endif
