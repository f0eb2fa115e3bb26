/*
 * held — the engine of a fixture, whose reads a test holds back and lets go.
 *
 *     held_begin(fixture);                 // nothing is held yet
 *     held_set(true);  // what the reader thread asks for from now on does not come
 *     loader_open(...); held_await();      // it asked
 *     held_set(false); ... held_end(fixture);
 *
 * One fixture at a time. Indexes are read all the same: who waits for ever is no reader of samples.
 */
#ifndef MILLRACE_TESTS_LOADER_HELD_H
#define MILLRACE_TESTS_LOADER_HELD_H

#include "tests/loader/fixture.h"

void held_begin(struct fixture *fixture);
/* The engine is as it was. */
void held_end(struct fixture *fixture);
void held_set(bool is_held);
/* Until a reader found since held_begin that its reads do not come. */
void held_await(void);
/* A thread's main: lets reads go when the consumer of the loader, its argument, waits for one. */
void *held_release_when_consumer_waits(void *loader);

#endif
