/*
 * engine_thread — what the threads of comm_mpi and comm_tcp share. Each backend has its own loop:
 *
 *     engine_take_over              with the mutex held
 *     engine_begin                  posts the operations taken over
 *     ...                           moves bytes, receives control messages
 *     engine_progress               starts next rounds, finishes operations
 *     engine_check_deadlines
 *
 * After the end of the run nothing is active. A finished operation belongs to its caller again at
 * once.
 *
 * Threads: the engine's only.
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_THREAD_H
#define MILLRACE_COMM_ENGINE_ENGINE_THREAD_H

#include "comm/engine/engine.h"

/* Activates the queued operations and returns the first. Also installs a requested track. Call with
 * the mutex held. */
struct engine_op *engine_take_over(struct engine *engine);
/* Posts the operations from `first` on, then ends the run if a caller asked for it. */
void engine_begin(struct engine *engine, struct engine_op *first, bool abort_asked);
/* Returns whether a message or an operation completed. A failed operation ends the run. */
bool engine_progress(struct engine *engine);
/* Asks the ranks that a due operation waits for what they are doing. The operation and the run fail
 * if one of them does not answer, or if there is a deadline and none of them asks for more time.
 * Otherwise the operation waits as long again. */
void engine_check_deadlines(struct engine *engine);

/* When the operation becomes late: at its deadline; without one, the engine's timeout after its
 * ranks were last known to be alive. UINT64_MAX: never. */
uint64_t engine_due_ns(const struct engine_op *op);

/* Ends the run; at most once. own: the failure of this process that caused it, or NULL. */
void engine_end(struct engine *engine, const char *why, const struct err *own, bool others_know);
/* -ECONNABORTED with the reason. Any thread; the mutex is held. */
int engine_ended_error(const struct engine *engine, struct err *err);
/* Writes the answer to a rank that waits for this one: '+' if it should wait longer, else '-', then
 * the activity: "-at data of step 7 for 61.0 s". '+' while the activity may be slow, and for the
 * engine's timeout afterward, so that this rank can catch up. */
void engine_answer(struct engine *engine, char answer[ENGINE_ACTIVITY_BYTES]);
/* Returns -EPROTO: a rank sent an unexpected number of bytes. */
int engine_size_error(const struct engine_op *op, int peer, uint64_t expected_bytes,
                      const char *found, struct err *err);

#endif
