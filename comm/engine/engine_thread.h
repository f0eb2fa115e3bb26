/*
 * engine_thread — the engine's thread: what those of comm_mpi and comm_tcp do alike. A backend's
 * own is its loop, in which bytes come and go:
 *
 *     engine_take_over              with the mutex held
 *     engine_begin                  posts what was handed over
 *     ...                           moves what can be moved, hears other ranks
 *     engine_progress               operations whose round is done have their next one, or are done
 *     engine_watch_deadlines
 *
 * Once the run has ended they do nothing, and nothing is active. An operation that is done, or was
 * ended, is its caller's again at once.
 *
 * Threads: the engine's.
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_THREAD_H
#define MILLRACE_COMM_ENGINE_ENGINE_THREAD_H

#include "comm/engine/engine.h"

/* Makes what was handed over since active, and what a trace asked for its track: the first of those
 * operations, which stand last. The mutex is held. */
struct engine_op *engine_take_over(struct engine *engine);
/* Posts those from `first` on, which were taken over; then ends the run where a caller has asked
 * for it. */
void engine_begin(struct engine *engine, struct engine_op *first, bool abort_asked);
/* Whether `ask` has told of any message, or an operation is done. One that fails ends the run:
 * nobody can know what the other ranks have got of it. */
bool engine_progress(struct engine *engine);
/* Has those fail that are late. */
void engine_watch_deadlines(struct engine *engine);

/* When the operation is late: at its deadline, or where it has none, the engine's timeout after its
 * ranks were last known to live. UINT64_MAX: never. */
uint64_t engine_due_ns(const struct engine_op *op);

/* For fail_late: ranks of the communicator that are late: those whose messages are awaited, else
 * those that take none; how many of `most` are listed. */
int engine_list_late(const struct engine_op *op, int *ranks, int most);
/* The operation, an active one, is due. It fails, and with it the run, where a rank that is still
 * late gave no answer, and at a deadline also where none of these says that it should wait on. Else
 * it waits as long again. answers[i]: of asked[i], a rank of the communicator that was late when it
 * was asked; NULL: none came. */
void engine_fail_late(struct engine_op *op, const int *asked, const char *const *answers,
                      int count);

/* Ends the run; no more than once. own: the failure of this process that is why, where it is
 * one. */
void engine_end(struct engine *engine, const char *why, const struct err *own, bool others_know);
/* -ECONNABORTED: the run has ended, by whom and why. Any thread; the mutex is held. */
int engine_tell_ended(const struct engine *engine, struct err *err);
/* The answer to a rank that waits for this one: whether it should wait on ('+', or '-'), then what
 * this process does: "-at data of step 7 for 61.0 s". It should while the process does what may
 * last (comm.h's note), and for the engine's timeout after that, so that it can catch up. */
void engine_answer(struct engine *engine, char answer[ENGINE_DOING_BYTES]);
/* -EPROTO: a rank sent another number of bytes than were expected. */
int engine_tell_size(const struct engine_op *op, int peer, uint64_t expected_bytes,
                     const char *found, struct err *err);

#endif
