/*
 * engine_thread — steps of the backend's thread loop:
 *
 *     engine_take_queued_ops        with the mutex held
 *     engine_start_ops              posts their messages
 *     ...                           moves bytes, handles control messages
 *     engine_progress               starts rounds, finishes operations
 *     engine_check_deadlines
 *
 * After the end of the run, no operation is active. Once finished, an operation belongs to its
 * caller again.
 *
 * Threads: the backend's thread only, unless stated otherwise.
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_THREAD_H
#define MILLRACE_COMM_ENGINE_ENGINE_THREAD_H

#include "comm/engine/engine.h"

/* Activates the queued operations and returns the first. Call with the mutex held. */
struct engine_op *engine_take_queued_ops(struct engine *engine);
/* Posts the operations, starting with `first`; ends the run if abort_requested. */
void engine_start_ops(struct engine *engine, struct engine_op *first, bool abort_requested);
/* Returns true if a message or an operation completed. A failed operation ends the run. */
bool engine_progress(struct engine *engine);
/* Asks the late ranks of a due operation for their activity. The run ends if one does not
 * answer, or if the operation has a deadline and no rank asks for more time. Otherwise the wait
 * is extended. */
void engine_check_deadlines(struct engine *engine);

/* The operation's deadline or, if it has none, wait_began_ns plus the engine's timeout. UINT64_MAX:
 * there is no limit. */
uint64_t engine_op_deadline_ns(const struct engine_op *op);

/* Ends the run; has no effect if it has already ended. own_failure: this process's failure that
 * caused it, or NULL. */
void engine_end_run(struct engine *engine, const char *reason, const struct err *own_failure,
                    bool others_are_notified);
/* -ECONNABORTED with the reason. May be called from any thread, with the mutex held. */
int engine_ended_error(const struct engine *engine, struct err *err);
/* Writes the answer to a waiting rank: '+' if it should wait longer, else '-', then the activity:
 * "-at data of step 7 for 61.0 s". The answer is '+' during a slow activity and, to let this rank
 * catch up, for the engine's timeout afterwards. */
void engine_format_activity(struct engine *engine, char answer[ENGINE_ACTIVITY_BYTES]);
/* Returns -EPROTO: a rank sent an unexpected number of bytes. */
int engine_size_error(const struct engine_op *op, int peer, uint64_t expected_bytes,
                      const char *found, struct err *err);

#endif
