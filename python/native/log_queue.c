/*
 * log_queue — see log_queue.h.
 */
#include "python/native/log_queue.h"

#include <stdlib.h>
#include <string.h>

/* Runs without the GIL. A line that finds no memory is lost. */
static void keep_line(void *context, enum log_level level, const char *line)
{
    struct log_queue *queue = context;
    size_t bytes = strlen(line) + 1;
    struct log_entry *entry = malloc(sizeof *entry + bytes);
    if (!entry)
        return;
    entry->next = NULL;
    entry->level = level;
    memcpy(entry->line, line, bytes);
    pthread_mutex_lock(&queue->mutex);
    *queue->end = entry;
    queue->end = &entry->next;
    pthread_mutex_unlock(&queue->mutex);
}

static struct log_entry *take_all(struct log_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct log_entry *first = queue->first;
    queue->first = NULL;
    queue->end = &queue->first;
    pthread_mutex_unlock(&queue->mutex);
    return first;
}

void log_queue_init(struct log_queue *queue, PyObject *function)
{
    queue->log = (struct log){keep_line, queue, LOG_INFO};
    queue->function = Py_NewRef(function);
    pthread_mutex_init(&queue->mutex, NULL);
    queue->first = NULL;
    queue->end = &queue->first;
}

void log_queue_deliver(struct log_queue *queue)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (struct log_entry *entry = take_all(queue), *next; entry; entry = next) {
        next = entry->next;
        /* names in a line may be any bytes, and may be cut */
        PyObject *line =
            PyUnicode_DecodeUTF8(entry->line, (Py_ssize_t)strlen(entry->line), "backslashreplace");
        PyObject *result = line && queue->function ? PyObject_CallFunction(queue->function, "iO",
                                                                           (int)entry->level, line)
                                                   : NULL;
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(queue->function);
        Py_XDECREF(result);
        Py_XDECREF(line);
        free(entry);
    }
    PyErr_Restore(type, value, trace);
}

void log_queue_deinit(struct log_queue *queue)
{
    for (struct log_entry *entry = take_all(queue), *next; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
    Py_CLEAR(queue->function);
    pthread_mutex_destroy(&queue->mutex);
}
