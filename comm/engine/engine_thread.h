/*
 * engine_thread — the engine's thread: the common part of those of comm_mpi and comm_tcp. The loop
 * that moves bytes belongs to the backend:
 *
 *     engine_take_over              with the mutex held
 *     engine_begin                  posts what was handed over
 *     ...                           moves what can be moved, hears other ranks
 *     engine_progress               operations whose round is done have their next one, or are done
 *     engine_watch_deadlines
 *
 * After the end of the run they do nothing, and nothing is active. An operation that is done, or
 * was ended, belongs to its caller again at once.
 *
 * Threads: the engine's only.
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_THREAD_H
#define MILLRACE_COMM_ENGINE_ENGINE_THREAD_H

#include "comm/engine/engine.h"

/* Activates the operations that were queued since, at the end of the active list, and returns the
 * first of them. Also installs the track of a requested trace. Call with the mutex held. */
struct engine_op *engine_take_over(struct engine *engine);
/* Posts operations from `first` on, which were taken over. Then ends the run if a caller asked for
 * it. */
void engine_begin(struct engine *engine, struct engine_op *first, bool abort_asked);
/* Returns whether `ask` reported any message or an operation is done. A failed operation ends the
 * run, because no rank can know what the others received. */
bool engine_progress(struct engine *engine);
/* Fails the operations that are late. */
void engine_watch_deadlines(struct engine *engine);

/* When the operation becomes late: at its deadline; without one, the engine's timeout after its
 * ranks were last known to be alive. UINT64_MAX: never. */
uint64_t engine_due_ns(const struct engine_op *op);

/* For fail_late: lists up to `most` late ranks of the communicator and returns their number. These
 * are the ranks whose messages are awaited; if none, those that have not taken messages. */
int engine_list_late(const struct engine_op *op, int *ranks, int most);
/* Handles an active operation that is due. The operation and the run fail if a rank that is still
 * late did not answer, or if there is a deadline and none of the late ranks asks for more time.
 * Otherwise the operation waits as long again. answers[i]: from asked[i], a rank of the
 * communicator that was late when asked; NULL: no answer. */
void engine_fail_late(struct engine_op *op, const int *asked, const char *const *answers,
                      int count);

/* Ends the run; at most once. own: the failure of this process that caused it, or NULL. */
void engine_end(struct engine *engine, const char *why, const struct err *own, bool others_know);
/* -ECONNABORTED: by which rank the run was ended, and why. Any thread; the mutex is held. */
int engine_ended_error(const struct engine *engine, struct err *err);
/* Writes the answer to a rank that waits for this one: '+' if that rank should wait longer, else
 * '-', then what this process does: "-at data of step 7 for 61.0 s". The answer is '+' while the
 * process does something that may last (comm.h's note), and for the engine's timeout afterward, so
 * that it can catch up. */
void engine_answer(struct engine *engine, char answer[ENGINE_DOING_BYTES]);
/* Returns -EPROTO: a rank sent an unexpected number of bytes. */
int engine_size_error(const struct engine_op *op, int peer, uint64_t expected_bytes,
                      const char *found, struct err *err);

#endif
