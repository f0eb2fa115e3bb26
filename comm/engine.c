/*
 * engine — see engine.h: what callers hand over, and the end of the run.
 */
#include "comm/engine.h"

#include "base/clock.h"
#include "base/trace.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATE_NAMED_MAX = 8 };

void engine_init(struct engine *engine, const struct engine_ops *ops)
{
    engine->ops = ops;
    engine->doing_since_ns = clock_now_ns();
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->changed, NULL);
}

void engine_deinit(struct engine *engine)
{
    for (struct engine_op *op = engine->made, *next; op; op = next) {
        next = op->next_made;
        engine->ops->deinit(op);
        free(op->scratch);
        free(op);
    }
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
}

/* Callers. */

int engine_name(struct engine *engine, unsigned *ret_name, struct err *err)
{
    int status = -ENOBUFS;
    pthread_mutex_lock(&engine->mutex);
    for (unsigned i = 0; i < ENGINE_COMMS_MAX && status; i++) {
        unsigned name = (engine->name_next + i) % engine->names_count;
        if (engine->name_is_used[name % ENGINE_COMMS_MAX])
            continue;
        engine->name_is_used[name % ENGINE_COMMS_MAX] = true;
        engine->name_next = name + 1;
        *ret_name = name;
        status = 0;
    }
    pthread_mutex_unlock(&engine->mutex);
    return status ? err_set(err, status, "a process has %d communicators open", ENGINE_COMMS_MAX) : 0;
}

void engine_forget_name(struct engine *engine, unsigned name)
{
    pthread_mutex_lock(&engine->mutex);
    engine->name_is_used[name % ENGINE_COMMS_MAX] = false;
    pthread_mutex_unlock(&engine->mutex);
}

/* The mutex is held. */
static int tell_ended(const struct engine *engine, struct err *err)
{
    return err_set(err, -ECONNABORTED, "the run was ended: %.230s", engine->why);
}

int engine_check(struct engine *engine, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? tell_ended(engine, err) : 0;
    pthread_mutex_unlock(&engine->mutex);
    return status;
}

static struct engine_op *make_op(struct engine *engine)
{
    struct engine_op *op = calloc(1, engine->ops->op_bytes);
    if (!op)
        return NULL;
    op->engine = engine;
    pthread_mutex_lock(&engine->mutex);
    op->next_made = engine->made;
    engine->made = op;
    pthread_mutex_unlock(&engine->mutex);
    return op;
}

int engine_take(struct engine *engine, struct engine_op **ret_op, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? tell_ended(engine, err) : 0;
    struct engine_op *op = engine->unused;
    if (!status && op)
        engine->unused = op->next;
    pthread_mutex_unlock(&engine->mutex);
    if (status)
        return status;
    if (!op)
        op = make_op(engine);
    if (!op)
        return err_set(err, -ENOMEM, "out of memory for an exchange");
    op->next = NULL;
    op->advance = NULL;
    op->deadline_ns = op->traced_ns = op->sent_bytes = op->sum = 0;
    op->is_done = false;
    op->status = 0;
    err_clear(&op->detail);
    engine->ops->clear(op);
    *ret_op = op;
    return 0;
}

void engine_give(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    op->next = engine->unused;
    engine->unused = op;
    pthread_mutex_unlock(&engine->mutex);
}

void *engine_op_scratch(struct engine_op *op, size_t bytes)
{
    if (bytes > op->scratch_bytes) {
        void *scratch = realloc(op->scratch, bytes);
        if (!scratch)
            return NULL;
        op->scratch = scratch;
        op->scratch_bytes = bytes;
    }
    return op->scratch;
}

void engine_start(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    bool is_over = engine->ended;
    if (is_over) {
        op->status = tell_ended(engine, &op->detail);
        op->is_done = true;
    } else {
        if (engine->queue_last)
            engine->queue_last->next = op;
        else
            engine->queue_first = op;
        engine->queue_last = op;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (!is_over)
        engine->ops->wake(engine);
}

bool engine_is_done(struct engine_op *op)
{
    pthread_mutex_lock(&op->engine->mutex);
    bool is_done = op->is_done;
    pthread_mutex_unlock(&op->engine->mutex);
    return is_done;
}

void engine_wait(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    while (!op->is_done)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

void engine_note(struct engine *engine, const char *what, uint64_t number)
{
    pthread_mutex_lock(&engine->mutex);
    engine->doing = what;
    engine->doing_number = number;
    engine->doing_since_ns = clock_now_ns();
    pthread_mutex_unlock(&engine->mutex);
}

void engine_add_track(struct engine *engine, struct trace *trace, const char *name)
{
    struct trace_track *track = trace_add_track(trace, name, 0);
    pthread_mutex_lock(&engine->mutex);
    engine->track_given = track;
    pthread_mutex_unlock(&engine->mutex);
}

void engine_abort(struct engine *engine, const char *why)
{
    pthread_mutex_lock(&engine->mutex);
    if (!engine->ended && !engine->abort_asked) {
        snprintf(engine->why, sizeof engine->why, "%s", why);
        engine->abort_asked = true;
    }
    pthread_mutex_unlock(&engine->mutex);
    engine->ops->wake(engine);
    pthread_mutex_lock(&engine->mutex);
    while (!engine->ended)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

/* The thread. */

struct engine_op *engine_take_over(struct engine *engine)
{
    struct engine_op *first = engine->queue_first, **link = &engine->active;
    while (*link)
        link = &(*link)->next;
    *link = first;
    engine->queue_first = engine->queue_last = NULL;
    engine->track = engine->track_given;
    return first;
}

void engine_deactivate(struct engine_op *op)
{
    struct engine_op **link = &op->engine->active;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
}

void engine_finish(struct engine_op *op, int status, const struct err *detail)
{
    struct engine *engine = op->engine;
    if (!status)
        trace_end_flight(engine->track, op->kind, op->traced_ns, "sent_bytes", op->sent_bytes);
    pthread_mutex_lock(&engine->mutex);
    op->status = status;
    op->detail = *detail;
    op->is_done = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

/* Those that were handed over since are done as well, whom nobody takes over any more. */
static void end_queue(struct engine *engine, const struct err *own, struct err *ret_detail)
{
    pthread_mutex_lock(&engine->mutex);
    engine->ended = true;
    tell_ended(engine, ret_detail);
    if (own)
        *ret_detail = *own;
    for (struct engine_op *op = engine->queue_first; op; op = op->next) {
        op->status = ret_detail->code;
        op->detail = *ret_detail;
        op->is_done = true;
    }
    engine->queue_first = engine->queue_last = NULL;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

void engine_end(struct engine *engine, const char *why, const struct err *own, bool others_know)
{
    struct err detail = {0};
    if (engine->ended)
        return;
    pthread_mutex_lock(&engine->mutex);
    engine->abort_asked = true; /* from here on callers leave `why` as it is, which the others are sent */
    memmove(engine->why, why, strnlen(why, ENGINE_WHY_BYTES - 1) + 1);
    engine->why[ENGINE_WHY_BYTES - 1] = '\0';
    pthread_mutex_unlock(&engine->mutex);
    if (!others_know)
        engine->ops->tell_others(engine);
    end_queue(engine, own, &detail);
    for (struct engine_op *op = engine->active, *next; op; op = next) {
        next = op->next; /* whoever waits for it may take it as soon as it is done */
        engine_finish(op, detail.code, &detail);
    }
    engine->active = NULL;
}

void engine_fail(struct engine_op *op, const struct err *detail)
{
    struct engine *engine = op->engine;
    char why[ENGINE_WHY_BYTES];
    assert(detail->code < 0);
    int found = (int)strcspn(detail->found, ";"); /* they need not know what else was asked */
    snprintf(why, sizeof why, "rank %d: %.150s%s%.*s", engine->rank, detail->what, found > 0 ? ": " : "",
             found < 60 ? found : 60, detail->found);
    engine_end(engine, why, detail, false);
}

/* Who is late. */

static int list_awaited(const struct engine_op *op, bool is_send, int *ranks, int most)
{
    int count = 0;
    for (int r = 0; r < op->ranks && count < most; r++)
        if (op->engine->ops->awaits(op, op->world_ranks[r], is_send))
            ranks[count++] = r;
    return count;
}

int engine_list_late(const struct engine_op *op, int *ranks, int most)
{
    int count = list_awaited(op, false, ranks, most);
    return count > 0 ? count : list_awaited(op, true, ranks, most);
}

/* "nothing from ranks 1, 3": those whose messages are awaited; "ranks 2 took nothing" where only sends are. */
static void tell_late(const struct engine_op *op, char *text, size_t bytes)
{
    int late[LATE_NAMED_MAX + 1];
    int count = list_awaited(op, false, late, LATE_NAMED_MAX + 1);
    bool takes = count == 0;
    if (takes)
        count = list_awaited(op, true, late, LATE_NAMED_MAX + 1);
    if (count == 0) {
        snprintf(text, bytes, "the library's own reduction, which does not tell who is late");
        return;
    }
    const char *plural = count > 1 ? "s" : "";
    size_t used = (size_t)snprintf(text, bytes, takes ? "rank%s " : "nothing from rank%s ", plural);
    for (int i = 0; i < count && i < LATE_NAMED_MAX && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i > 0 ? ", " : "", late[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, "%s%s", count > LATE_NAMED_MAX ? ", ..." : "",
                 takes ? " took nothing" : "");
}

static bool is_late(const struct engine_op *op, int rank)
{
    int peer = op->world_ranks[rank];
    return op->engine->ops->awaits(op, peer, false) || op->engine->ops->awaits(op, peer, true);
}

void engine_fail_late(struct engine_op *op, const int *asked, const char *const *answers, int count)
{
    const struct engine *engine = op->engine;
    struct err detail = {0};
    char text[ERR_TEXT_BYTES_MAX];
    tell_late(op, text, sizeof text);
    size_t used = strlen(text);
    for (int i = 0; i < count && used < sizeof text; i++)
        if (is_late(op, asked[i]))
            used += (size_t)snprintf(text + used, sizeof text - used, "; rank %d: %.*s", asked[i],
                                     ENGINE_DOING_BYTES,
                                     answers[i] ? answers[i] : "no answer, as of a process that is stopped");
    err_set(&detail, -ETIMEDOUT, "rank %d of %d waited too long for %s", engine->rank, engine->ranks,
            op->what);
    err_found(&detail, "%s", text);
    err_advise(&detail, "look for the rank that stopped or is slow; raise the timeout if it is only slow");
    engine_fail(op, &detail);
}

void engine_tell_doing(struct engine *engine, char text[ENGINE_DOING_BYTES])
{
    pthread_mutex_lock(&engine->mutex);
    double seconds = clock_seconds(clock_now_ns() - engine->doing_since_ns);
    if (engine->doing)
        snprintf(text, ENGINE_DOING_BYTES, "at %.32s of step %llu for %.1f s", engine->doing,
                 (unsigned long long)engine->doing_number, seconds);
    else
        snprintf(text, ENGINE_DOING_BYTES, "here for %.1f s", seconds);
    pthread_mutex_unlock(&engine->mutex);
}

int engine_tell_size(const struct engine_op *op, int peer, uint64_t expected_bytes, const char *found,
                     struct err *err)
{
    err_set(err, -EPROTO, "%s: rank %d of the run sent another number of bytes", op->what, peer);
    err_expected(err, "%llu", (unsigned long long)expected_bytes);
    err_found(err, "%s", found);
    err_advise(err, "all ranks must make the same calls in the same order");
    return -EPROTO;
}
