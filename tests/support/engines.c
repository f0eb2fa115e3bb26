/*
 * engines — see engines.h.
 */
#include "tests/support/engines.h"

#include <stdio.h>

static enum io_engine current = IO_ENGINE_AUTO;

enum io_engine engines_current(void)
{
    return current;
}

struct io_options engines_options(void)
{
    return (struct io_options){.engine = current};
}

const char *engines_skip_reason(enum io_engine engine)
{
    static char line[ERR_LINE_BYTES_MAX];
    struct io *io;
    struct err err = {0};
    struct io_options options = {.engine = engine};
    if (io_open("file:", &options, &io, &err))
        return err_format(&err, line, sizeof line);
    io_close(io);
    return NULL;
}

int engines_run_one(enum io_engine engine, const struct CMUnitTest *tests, size_t count)
{
    const char *name = engine == IO_ENGINE_URING ? "io_uring" : "threads";
    const char *lack = engines_skip_reason(engine);
    if (lack) {
        fprintf(stderr, "SKIPPED: cases with %s: %s\n", name, lack);
        return 0;
    }
    current = engine;
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    current = IO_ENGINE_AUTO;
    return failed;
}

int engines_run_all(const struct CMUnitTest *tests, size_t count)
{
    int failed = engines_run_one(IO_ENGINE_THREADS, tests, count);
    return failed + engines_run_one(IO_ENGINE_URING, tests, count);
}
