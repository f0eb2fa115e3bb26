/*
 * consumer — the state of the thread that calls the loader: its position, its errors and its waits.
 *
 * Files: loader_next.c delivers and releases batches, wait.c waits for them.
 *
 * The loader's mutex guards the fields marked G. All others belong to the consumer's thread.
 */
#ifndef MILLRACE_LOADER_CONSUMER_H
#define MILLRACE_LOADER_CONSUMER_H

#include "loader/slots.h"

#include <pthread.h>

struct consumer {
    int failure; /* returned by all later calls of loader_next */
    struct err failure_err;
    struct cursor cursor;
    uint64_t once, order_digest;          /* up to the last batch taken */
    struct loader_bad_sample *quarantine; /* LOADER_QUARANTINE_MAX; its texts are in reasons */
    char (*reasons)[LOADER_REASON_BYTES];
    uint64_t quarantine_count;

    pthread_cond_t wake; /* one waiter */
    bool waits;          /* G */
    /* G: loader.taken + 1 when the consumer last found no batch; 0: never */
    uint64_t underrun_noted;
};

/* Need the loader's mutex. Is there a micro-batch to take, or the end to report? */
bool loader_has_next(struct loader *loader);
/* The consumer found no micro-batch. Raises ahead_max if that would have prevented it. Each
 * micro-batch counts once, however often the consumer asks; before the first batch nothing would
 * have helped. */
void loader_note_underrun(struct loader *loader);
/* Waits until loader_has_next. -ETIMEDOUT with detail by the options' timeout; -EINTR. */
int loader_wait(struct loader *loader, struct err *err);

#endif
