/*
 * log_queue — keeps the lines that the library logs on its threads, until a thread with the GIL
 * hands them to Python.
 */
#ifndef MILLRACE_PYTHON_LOG_QUEUE_H
#define MILLRACE_PYTHON_LOG_QUEUE_H

#include "base/log.h"
#include "python/native/native.h"

#include <pthread.h>

struct log_entry {
    struct log_entry *next;
    enum log_level level;
    char line[];
};

struct log_queue {
    struct log log;     /* for the library; LOG_INFO and above */
    PyObject *function; /* called with (level, line); strong */
    pthread_mutex_t mutex;
    struct log_entry *first, **end; /* guarded by mutex */
};

/* The queue must stay at its address. */
void log_queue_init(struct log_queue *queue, PyObject *function);
/* Hands the lines to the function. An exception that the caller has set stays; those of the
 * function go to sys.unraisablehook. */
void log_queue_deliver(struct log_queue *queue);
/* Drops the lines. Call it when no thread logs any more. */
void log_queue_deinit(struct log_queue *queue);

#endif
