/*
 * held_reads — lets a test hold and release the reads of a fixture's engine.
 *
 *     held_reads_begin(fixture);           // nothing is held yet
 *     held_reads_set(true);                // reads of the reader thread do not complete
 *     loader_open(...); held_reads_wait(); // a read was requested
 *     held_reads_set(false); ... held_reads_end(fixture);
 *
 * One fixture at a time. Reads of indexes complete as usual, because only the reader of samples
 * waits with a timeout.
 */
#ifndef MILLRACE_TESTS_LOADER_HELD_READS_H
#define MILLRACE_TESTS_LOADER_HELD_READS_H

#include "tests/loader/fixture.h"

void held_reads_begin(struct fixture *fixture);
/* Restores the engine. */
void held_reads_end(struct fixture *fixture);
void held_reads_set(bool is_held);
/* Waits until a read has been held since held_reads_begin. */
void held_reads_wait(void);
/* The main function of a thread that releases the reads when the consumer of the loader, its
 * argument, waits. */
void *held_reads_release_when_consumer_waits(void *loader);

#endif
