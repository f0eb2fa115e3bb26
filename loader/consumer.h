/*
 * consumer — the state of the thread that calls the loader.
 *
 * Files: loader_next.c delivers and releases batches, wait.c waits for them.
 *
 * The loader's mutex guards fields marked G; the consumer's thread owns all others.
 */
#ifndef MILLRACE_LOADER_CONSUMER_H
#define MILLRACE_LOADER_CONSUMER_H

#include "loader/slots.h"

#include <pthread.h>

struct consumer {
    int failure; /* returned by all later loader_next calls */
    struct err failure_err;
    struct cursor cursor, cursor_in_step; /* loader_cursor, loader_cursor_in_step */
    uint64_t set_digest, sequence_digest; /* through the last batch taken */
    struct loader_bad_sample *quarantine; /* [LOADER_QUARANTINE_MAX] */
    char (*reasons)[LOADER_REASON_BYTES];
    uint64_t quarantine_count;

    pthread_cond_t wake; /* one waiter */
    bool is_waiting;
    /* Of a wait that -EINTR ended, which the next call continues: its begin (0: there is none), and
     * when to log it. */
    uint64_t wait_begin_ns, wait_report_ns;
    /* G: loader.taken + 1 at the last underrun; 0: none yet */
    uint64_t last_underrun;
    uint64_t growth_reported; /* bytes beyond the budget at the last warning */
};

/* Requires the loader's mutex. True if a micro-batch or the end of the run is ready. */
bool loader_has_next(struct loader *loader);
/* Counts at most one underrun per micro-batch. Raises ahead_max if more read-ahead would have
 * prevented it, but never before the first batch. */
void loader_note_underrun(struct loader *loader);
/* -ETIMEDOUT with detail after options.timeout_ns; -EINTR: stop requested; -ENOBUFS: the next
 * micro-batch needs memory of the caller's batches. */
int loader_wait(struct loader *loader, struct err *err);

#endif
