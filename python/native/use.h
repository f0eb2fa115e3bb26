/*
 * use — an object of the library that one thread at a time may use, in the process that opened it.
 *
 * Another thread gets a RuntimeError, and so does a child after fork, since threads do not survive
 * it.
 */
#ifndef MILLRACE_PYTHON_USE_H
#define MILLRACE_PYTHON_USE_H

#include "python/native/native.h"

#include <stdbool.h>
#include <sys/types.h>

/* Guarded by the GIL. */
struct use {
    const char *noun; /* static: "loader" */
    pid_t pid;
    bool is_busy, is_closed;
};

struct use use_begin(const char *noun);
/* False in a child after fork, where the memory is shared with the parent's threads and must be
 * left alone. */
bool use_is_own_process(const struct use *use);
/* Returns -1 with an exception set if the object is closed, busy or of another process. Then call
 * use_release, also before any other return. */
int use_acquire(struct use *use);
void use_release(struct use *use);
/* Marks the object as closed. Returns 1 if the caller must close it now, then as after use_acquire;
 * 0 if it is closed already or of another process; -1 with an exception set if it is busy. */
int use_close(struct use *use);

#endif
