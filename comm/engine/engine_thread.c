/*
 * engine_thread — see engine_thread.h.
 */
#include "comm/engine/engine_thread.h"

#include "base/clock.h"
#include "base/os/trace.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LATE_NAMED_MAX = 8,
    ANSWER_NS = 1000000000, /* time for a late rank to answer */
};

/* The end of an operation, and of the run. */

static void deactivate_op(struct engine_op *op)
{
    struct engine_op **link = &op->engine->active_ops;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
}

/* The operation must no longer be active. */
static void finish_op(struct engine_op *op, int status, const struct err *detail)
{
    struct engine *engine = op->engine;
    if (!status)
        trace_end_async(engine->track, op->trace_name, op->trace_began_ns, "sent_bytes",
                        op->sent_bytes);
    pthread_mutex_lock(&engine->mutex);
    op->status = status;
    op->detail = *detail;
    op->is_done = true;
    pthread_cond_broadcast(&engine->completion);
    pthread_mutex_unlock(&engine->mutex);
}

/* Also finishes operations that are still queued. */
static void end_queued_ops(struct engine *engine, const struct err *own_failure,
                           struct err *ret_detail)
{
    pthread_mutex_lock(&engine->mutex);
    engine->has_ended = true;
    engine_ended_error(engine, ret_detail);
    if (own_failure)
        *ret_detail = *own_failure;
    for (struct engine_op *op = engine->queue_first; op; op = op->next) {
        op->status = ret_detail->code;
        op->detail = *ret_detail;
        op->is_done = true;
    }
    engine->queue_first = engine->queue_last = NULL;
    pthread_cond_broadcast(&engine->completion);
    pthread_mutex_unlock(&engine->mutex);
}

void engine_end_run(struct engine *engine, const char *reason, const struct err *own_failure,
                    bool others_are_notified)
{
    struct err detail = {0};
    if (engine->has_ended)
        return;
    pthread_mutex_lock(&engine->mutex);
    /* From here on, callers do not change `reason`, which is sent to the other ranks. */
    engine->abort_requested = true;
    memmove(engine->reason, reason, strnlen(reason, ENGINE_REASON_BYTES - 1) + 1);
    engine->reason[ENGINE_REASON_BYTES - 1] = '\0';
    pthread_mutex_unlock(&engine->mutex);
    if (!others_are_notified)
        engine->ops->notify_others(engine);
    end_queued_ops(engine, own_failure, &detail);
    for (struct engine_op *op = engine->active_ops, *next; op; op = next) {
        next = op->next; /* the caller may reuse op when it is done */
        finish_op(op, detail.code, &detail);
    }
    engine->active_ops = NULL;
}

/* Fails an active operation. */
static void fail_op(struct engine_op *op, const struct err *detail)
{
    struct engine *engine = op->engine;
    char reason[ENGINE_REASON_BYTES];
    assert(detail->code < 0);
    int found = (int)strcspn(detail->found, ";"); /* omit the answers */
    snprintf(reason, sizeof reason, "rank %d: %.150s%s%.*s", engine->rank, detail->what,
             found > 0 ? ": " : "", found < 60 ? found : 60, detail->found);
    engine_end_run(engine, reason, detail, false);
}

/* Progress. */

struct engine_op *engine_take_queued_ops(struct engine *engine)
{
    struct engine_op *first = engine->queue_first, **link = &engine->active_ops;
    while (*link)
        link = &(*link)->next;
    *link = first;
    engine->queue_first = engine->queue_last = NULL;
    engine->track = engine->next_track;
    return first;
}

static bool post_op(struct engine_op *op)
{
    struct engine *engine = op->engine;
    struct err detail = {0};
    op->wait_began_ns = clock_now_ns();
    op->trace_began_ns = trace_begin(engine->track);
    int status = engine->ops->post(op, &detail);
    trace_end(engine->track, "post", op->trace_began_ns);
    if (status)
        fail_op(op, &detail);
    return !status;
}

void engine_start_ops(struct engine *engine, struct engine_op *first, bool abort_requested)
{
    for (struct engine_op *op = first; op && post_op(op); op = op->next)
        ;
    if (abort_requested)
        engine_end_run(engine, engine->reason, NULL, false);
}

/* Starts rounds until a message is in flight or no round is left. */
static int advance_rounds(struct engine_op *op, bool *ret_done, struct err *err)
{
    struct engine *engine = op->engine;
    while (op->done_count == op->planned_count && op->advance) {
        uint64_t began_ns = trace_begin(engine->track);
        op->planned_count = op->done_count = 0;
        int status = op->advance(op, err);
        if (!status && op->planned_count == 0)
            op->advance = NULL;
        if (!status)
            status = engine->ops->post(op, err);
        trace_end(engine->track, "next round", began_ns);
        if (status)
            return status;
    }
    *ret_done = op->done_count == op->planned_count;
    return 0;
}

static bool progress_op(struct engine_op *op)
{
    const struct engine_ops *ops = op->engine->ops;
    struct err detail = {0};
    bool done = false;
    int count = ops->poll ? ops->poll(op, &detail) : 0;
    int status = count < 0 ? count : advance_rounds(op, &done, &detail);
    if (status) {
        fail_op(op, &detail);
    } else if (done) {
        deactivate_op(op);
        finish_op(op, 0, &detail);
    }
    return count > 0 || done;
}

bool engine_progress(struct engine *engine)
{
    bool has_progressed = false;
    for (struct engine_op *op = engine->active_ops, *next; op && !engine->has_ended; op = next) {
        next = op->next;
        has_progressed = progress_op(op) || has_progressed;
    }
    return has_progressed;
}

uint64_t engine_op_deadline_ns(const struct engine_op *op)
{
    uint64_t timeout_ns = atomic_load(&op->engine->timeout_ns);
    if (op->deadline_ns)
        return op->deadline_ns;
    return timeout_ns > 0 && timeout_ns < UINT64_MAX - op->wait_began_ns
               ? op->wait_began_ns + timeout_ns
               : UINT64_MAX;
}

/* Late ranks. */

static int list_awaited_ranks(const struct engine_op *op, bool is_send, int *ranks, int max)
{
    int count = 0;
    for (int r = 0; r < op->ranks && count < max; r++)
        if (op->engine->ops->has_unfinished(op, op->world_ranks[r], is_send))
            ranks[count++] = r;
    return count;
}

/* Lists ranks whose messages are awaited; if there are none, ranks that have not received
 * messages. */
static int list_late_ranks(const struct engine_op *op, int *ranks, int max)
{
    int count = list_awaited_ranks(op, false, ranks, max);
    return count > 0 ? count : list_awaited_ranks(op, true, ranks, max);
}

/* Writes "nothing from ranks 1, 3", or "rank 2 received nothing" if only sends are unfinished. */
static void describe_late(const struct engine_op *op, char *text, size_t bytes)
{
    int late[LATE_NAMED_MAX + 1];
    int count = list_awaited_ranks(op, false, late, LATE_NAMED_MAX + 1);
    bool is_send = count == 0;
    if (is_send)
        count = list_awaited_ranks(op, true, late, LATE_NAMED_MAX + 1);
    if (count == 0) {
        snprintf(text, bytes, "the library's own reduction, which does not report late ranks");
        return;
    }
    const char *plural = count > 1 ? "s" : "";
    size_t used =
        (size_t)snprintf(text, bytes, is_send ? "rank%s " : "nothing from rank%s ", plural);
    for (int i = 0; i < count && i < LATE_NAMED_MAX && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i > 0 ? ", " : "", late[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, "%s%s", count > LATE_NAMED_MAX ? ", ..." : "",
                 is_send ? " received nothing" : "");
}

static void extend_wait(struct engine_op *op)
{
    uint64_t now_ns = clock_now_ns();
    if (op->deadline_ns)
        op->deadline_ns = now_ns + (op->deadline_ns - op->wait_began_ns);
    op->wait_began_ns = now_ns;
}

/* answers[i]: answer of rank late[i], or NULL. */
static void fail_late(struct engine_op *op, const int *late, const char *const *answers, int count)
{
    const struct engine *engine = op->engine;
    struct err detail = {0};
    char text[ERR_TEXT_BYTES_MAX];
    describe_late(op, text, sizeof text);
    size_t used = strlen(text);
    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "; rank %d: %.*s", late[i], ENGINE_ACTIVITY_BYTES,
            answers[i] && *answers[i] ? answers[i] + 1
                                      : "no answer, as if the process were stopped");
    err_set(&detail, -ETIMEDOUT, "rank %d of %d waited too long for %s", engine->rank,
            engine->ranks, op->purpose);
    err_found(&detail, "%s", text);
    err_advise(&detail,
               "look for the rank that stopped or is slow; raise the timeout if it is only slow");
    fail_op(op, &detail);
}

/* A rank must answer within ANSWER_NS or, if the operation has no deadline, within the engine's
 * timeout. */
static void query_late(struct engine_op *op)
{
    struct engine *engine = op->engine;
    const char *answers[ENGINE_QUERIED_MAX];
    int late[ENGINE_QUERIED_MAX], answered = 0;
    int count = list_late_ranks(op, late, ENGINE_QUERIED_MAX);
    uint64_t due_ns = engine_op_deadline_ns(op),
             since_ns = due_ns > op->wait_began_ns ? due_ns : op->wait_began_ns;
    uint64_t limit_ns = op->deadline_ns ? ANSWER_NS : atomic_load(&engine->timeout_ns);
    bool asks_for_time = false, is_dead = false;
    for (int i = 0; i < count; i++) {
        uint64_t queried_ns;
        answers[i] =
            engine->ops->query_activity(engine, op->world_ranks[late[i]], since_ns, &queried_ns);
        if (queried_ns < since_ns) /* queried for an earlier operation */
            queried_ns = since_ns;
        answered += answers[i] != NULL;
        asks_for_time = asks_for_time || (answers[i] && answers[i][0] == '+');
        is_dead = is_dead || (!answers[i] && clock_now_ns() - queried_ns >= limit_ns);
    }
    if (answered < count && !is_dead)
        return;
    if (answered == count && (!op->deadline_ns || asks_for_time))
        extend_wait(op);
    else
        fail_late(op, late, answers, count);
}

void engine_check_deadlines(struct engine *engine)
{
    uint64_t now_ns = clock_now_ns();
    for (struct engine_op *op = engine->active_ops, *next; op && !engine->has_ended; op = next) {
        next = op->next;
        if (now_ns >= engine_op_deadline_ns(op))
            query_late(op);
    }
}

void engine_format_activity(struct engine *engine, char answer[ENGINE_ACTIVITY_BYTES])
{
    uint64_t now_ns = clock_now_ns(), timeout_ns = atomic_load(&engine->timeout_ns);
    pthread_mutex_lock(&engine->mutex);
    double seconds = clock_seconds(now_ns - engine->activity_since_ns);
    bool was_slow = engine->slow_until_ns && now_ns - engine->slow_until_ns < timeout_ns;
    char sign = engine->activity_may_be_slow || was_slow ? '+' : '-';
    if (engine->activity)
        snprintf(answer, ENGINE_ACTIVITY_BYTES, "%cat %.32s of step %llu for %.1f s", sign,
                 engine->activity, (unsigned long long)engine->activity_step, seconds);
    else
        snprintf(answer, ENGINE_ACTIVITY_BYTES, "%chere for %.1f s", sign, seconds);
    pthread_mutex_unlock(&engine->mutex);
}

int engine_size_error(const struct engine_op *op, int peer, uint64_t expected_bytes,
                      const char *found, struct err *err)
{
    err_set(err, -EPROTO, "%s: rank %d of the run sent a different number of bytes", op->purpose,
            peer);
    err_expected(err, "%llu", (unsigned long long)expected_bytes);
    err_found(err, "%s", found);
    err_advise(err, "all ranks must make the same calls in the same order");
    return -EPROTO;
}
