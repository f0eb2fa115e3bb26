/*
 * tcp_thread — the engine's thread: takes over operations, moves what the connections let it, watches deadlines, ends the run. See tcp_thread.h.
 */
#include "comm/tcp_thread.h"

#include "base/clock.h"
#include "comm/comm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_NS   CLOCK_NS_PER_S        /* for who is late to say what it does */
#define FAREWELL_NS CLOCK_NS_PER_S        /* for telling the others that the run has ended */
#define CLOSE_NS    (10 * CLOCK_NS_PER_S) /* for the others to close, too */
#define LOOK_NS     (5 * CLOCK_NS_PER_S)  /* between looks at whether the others' machines are there */
enum { LATE_NAMED_MAX = 8, ASKED_MAX = 3, IDLE_MS = 1000, TICK_MS = 1 };

int tcp_thread_tell_ended(const struct tcp_engine *engine, struct err *err)
{
    return err_set(err, -ECONNABORTED, "the run was ended: %.230s", engine->why);
}

/* Ending the run. */

static void finish(struct tcp_engine *engine, struct tcp_op *op, int status, const struct err *detail)
{
    pthread_mutex_lock(&engine->mutex);
    op->status = status;
    op->detail = *detail;
    op->is_done = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

static bool sends(const struct tcp_engine *engine)
{
    for (int r = 0; r < engine->ranks; r++)
        if (tcp_peer_has_to_send(&engine->peers[r]))
            return true;
    return false;
}

static void leave(struct tcp_peer *peer)
{
    close(peer->socket);
    peer->socket = -1;
}

/* False where there is nothing more to tell. */
static bool push_words(struct tcp_engine *engine)
{
    bool waits = false;
    for (int r = 0; r < engine->ranks; r++) {
        struct tcp_peer *peer = &engine->peers[r];
        if (tcp_peer_has_to_send(peer) && tcp_peer_send(peer, true))
            leave(peer);
        waits = waits || tcp_peer_has_unheard(peer);
    }
    return waits;
}

/* A word to each other rank, as far as they take it in time. Their machines have it then: this process may exit, whatever it has not read, which would
 * drop what is still on its way. */
static void tell_others(struct tcp_engine *engine)
{
    uint64_t until_ns = clock_now_ns() + FAREWELL_NS;
    for (int r = 0; r < engine->ranks; r++)
        tcp_peer_say(&engine->peers[r], TCP_WORD_END, engine->why);
    while (push_words(engine) && clock_now_ns() < until_ns)
        poll(NULL, 0, TICK_MS);
}

/* Everything under way ends. own: the failure of this process that is why, where it is one. */
static void end_run(struct tcp_engine *engine, const char *why, const struct err *own, bool others_know)
{
    struct err detail = {0};
    if (engine->ended)
        return;
    pthread_mutex_lock(&engine->mutex);
    engine->abort_asked = true; /* from here on callers leave `why` as it is */
    memmove(engine->why, why, strnlen(why, TCP_WORDS_BYTES - 1) + 1);
    engine->why[TCP_WORDS_BYTES - 1] = '\0';
    pthread_mutex_unlock(&engine->mutex);
    if (!others_know)
        tell_others(engine);
    pthread_mutex_lock(&engine->mutex);
    engine->ended = true;
    tcp_thread_tell_ended(engine, &detail);
    if (own)
        detail = *own;
    for (struct tcp_op *op = engine->queue_first; op; op = op->next) {
        op->status = detail.code;
        op->detail = detail;
        op->is_done = true;
    }
    engine->queue_first = engine->queue_last = NULL;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    for (struct tcp_op *op = engine->active, *next; op; op = next) {
        next = op->next; /* whoever waits for it may take it as soon as it is done */
        finish(engine, op, detail.code, &detail);
    }
    engine->active = NULL;
}

/* The operation fails, and with it the run: nobody can know what the other ranks have got of it. */
static void fail(struct tcp_engine *engine, struct tcp_op *op, int status, const struct err *detail)
{
    char why[TCP_WORDS_BYTES];
    struct tcp_op **link = &engine->active;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    int found = (int)strcspn(detail->found, ";"); /* they need not know what else was asked */
    snprintf(why, sizeof why, "rank %d: %.150s%s%.*s", engine->rank, detail->what, found > 0 ? ": " : "",
             found < 60 ? found : 60, detail->found);
    end_run(engine, why, detail, false);
    finish(engine, op, status, detail);
}

/* Who is late. */

/* The ranks of the communicator that the operation still waits for. */
static int list_late(const struct tcp_op *op, int late[LATE_NAMED_MAX])
{
    int count = 0;
    for (int r = 0; r < op->ranks && count < LATE_NAMED_MAX; r++)
        for (size_t i = 0; i < op->count; i++)
            if (!op->messages[i].is_done && op->messages[i].peer == op->world_ranks[r]) {
                late[count++] = r;
                break;
            }
    return count;
}

static void ask_late(struct tcp_engine *engine, struct tcp_op *op)
{
    int late[LATE_NAMED_MAX];
    int count = list_late(op, late);
    for (int i = 0; i < count && i < ASKED_MAX; i++) {
        struct tcp_peer *peer = &engine->peers[op->world_ranks[late[i]]];
        peer->has_answered = false; /* to an earlier question, perhaps */
        tcp_peer_say(peer, TCP_WORD_QUESTION, "");
    }
    op->asked_ns = clock_now_ns();
}

static bool have_answered(const struct tcp_engine *engine, const struct tcp_op *op)
{
    int late[LATE_NAMED_MAX];
    int count = list_late(op, late);
    for (int i = 0; i < count && i < ASKED_MAX; i++)
        if (!engine->peers[op->world_ranks[late[i]]].has_answered)
            return false;
    return true;
}

static void fail_late(struct tcp_engine *engine, struct tcp_op *op)
{
    struct err detail = {0};
    int late[LATE_NAMED_MAX];
    int count = list_late(op, late);
    char text[240];
    size_t used = (size_t)snprintf(text, sizeof text, "nothing from rank%s ", count > 1 ? "s" : "");
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i > 0 ? ", " : "", late[i]);
    for (int i = 0; i < count && i < ASKED_MAX && used < sizeof text; i++) {
        const struct tcp_peer *peer = &engine->peers[op->world_ranks[late[i]]];
        used += (size_t)snprintf(text + used, sizeof text - used, "; rank %d: %.60s", late[i],
                                 peer->has_answered ? peer->answer
                                                    : "no answer, as of a process that is stopped");
    }
    err_set(&detail, -ETIMEDOUT, "rank %d of %d waited too long for %s", engine->rank, engine->ranks,
            op->what);
    err_found(&detail, "%s", text);
    err_advise(&detail, "look for the rank that stopped or is slow; raise the timeout if it is only slow");
    fail(engine, op, -ETIMEDOUT, &detail);
}

/* False where the run has ended. */
static bool watch_deadlines(struct tcp_engine *engine)
{
    uint64_t now_ns = clock_now_ns();
    for (struct tcp_op *op = engine->active; op; op = op->next) {
        if (!op->deadline_ns || now_ns < op->deadline_ns)
            continue;
        if (op->asked_ns == 0) {
            ask_late(engine, op);
        } else if (have_answered(engine, op) || now_ns - op->asked_ns >= ANSWER_NS) {
            fail_late(engine, op);
            return false;
        }
    }
    return true;
}

/* Words of other ranks. */

static void answer(struct tcp_engine *engine, struct tcp_peer *peer)
{
    char text[TCP_WORDS_BYTES];
    pthread_mutex_lock(&engine->mutex);
    double seconds = clock_seconds(clock_now_ns() - engine->doing_since_ns);
    if (engine->doing)
        snprintf(text, sizeof text, "at %.32s of step %llu for %.1f s", engine->doing,
                 (unsigned long long)engine->doing_number, seconds);
    else
        snprintf(text, sizeof text, "here for %.1f s", seconds);
    pthread_mutex_unlock(&engine->mutex);
    tcp_peer_say(peer, TCP_WORD_ANSWER, text);
}

static void hear(struct tcp_engine *engine, struct tcp_peer *peer, enum tcp_word word)
{
    switch (word) {
    case TCP_WORD_END:
        end_run(engine, peer->heard, NULL, true);
        break;
    case TCP_WORD_QUESTION:
        answer(engine, peer);
        break;
    case TCP_WORD_ANSWER:
        peer->has_answered = true;
        memcpy(peer->answer, peer->heard, sizeof peer->answer);
        break;
    default:
        peer->has_left = true;
        break;
    }
}

/* Connections. */

/* What is wrong with it ends the run. detail: of a frame that is wrong; else NULL. */
static void end_by_peer(struct tcp_engine *engine, struct tcp_peer *peer, int status,
                        const struct err *detail)
{
    char why[TCP_WORDS_BYTES];
    int rank = peer->rank;
    leave(peer);
    const struct tcp_message *waits = peer->wanted_first ? peer->wanted_first : peer->sends_first;
    if (detail)
        snprintf(why, sizeof why, "rank %d: %.150s", engine->rank, detail->what);
    else if (status == -ETIMEDOUT)
        snprintf(why, sizeof why, "rank %d is gone: its machine does not answer rank %d's", rank,
                 engine->rank);
    else if (!peer->has_left)
        snprintf(why, sizeof why, "rank %d is gone: its connection to rank %d has ended", rank, engine->rank);
    else if (waits)
        snprintf(why, sizeof why, "rank %d has left, for which rank %d waits with %.60s", rank, engine->rank,
                 waits->op->what);
    else
        return;
    end_run(engine, why, detail, false);
}

/* Those whose connections would say nothing for long. */
static void look_for_lost(struct tcp_engine *engine)
{
    uint64_t now_ns = clock_now_ns();
    if (now_ns - engine->looked_ns < LOOK_NS)
        return;
    engine->looked_ns = now_ns;
    for (int r = 0; r < engine->ranks && !engine->ended; r++)
        if (tcp_peer_is_lost(&engine->peers[r]))
            end_by_peer(engine, &engine->peers[r], -ETIMEDOUT, NULL);
}

static void receive_from(struct tcp_engine *engine, struct tcp_peer *peer)
{
    bool more = true;
    while (more && peer->socket >= 0 && !engine->ended) {
        struct err detail = {0};
        enum tcp_word word;
        int status = tcp_peer_receive(peer, &word, &more, &detail);
        if (status > 0)
            hear(engine, peer, word);
        if (status < 0)
            end_by_peer(engine, peer, status, status == -EPIPE ? NULL : &detail);
        else if (!engine->ended && peer->has_left &&
                 (peer->wanted_first || peer->sends_first)) /* nothing follows */
            end_by_peer(engine, peer, -EPIPE, NULL);
    }
}

/* Where it has ended, the reason may be among what came before. */
static void send_to(struct tcp_engine *engine, struct tcp_peer *peer)
{
    if (peer->socket < 0 || tcp_peer_send(peer, false) == 0)
        return;
    receive_from(engine, peer);
    if (!engine->ended && peer->socket >= 0)
        end_by_peer(engine, peer, -EPIPE, NULL);
}

/* Operations. */

static void accept_ops(struct tcp_engine *engine, struct tcp_op *first)
{
    struct tcp_op **link = &engine->active;
    while (*link)
        link = &(*link)->next;
    for (struct tcp_op *op = first, *next; op; op = next) {
        struct err detail = {0};
        int status = 0;
        next = op->next;
        op->next = NULL;
        *link = op;
        link = &op->next;
        for (size_t i = 0; i < op->count && !status; i++) {
            struct tcp_message *message = &op->messages[i];
            message->op = op;
            status =
                tcp_peer_take(&engine->peers[message->peer], message, message->peer == engine->rank, &detail);
        }
        if (status) {
            *link = next; /* they end as well */
            fail(engine, op, status, &detail);
            return;
        }
    }
}

static void end_ops(struct tcp_engine *engine)
{
    struct tcp_op **link = &engine->active;
    const struct err none = {0};
    while (*link) {
        struct tcp_op *op = *link;
        if (op->done_count < op->count) {
            link = &op->next;
            continue;
        }
        *link = op->next;
        if (op->finish)
            op->finish(op);
        finish(engine, op, 0, &none);
    }
}

static int poll_ms(const struct tcp_engine *engine)
{
    uint64_t now_ns = clock_now_ns(), until_ns = now_ns + IDLE_MS * UINT64_C(1000000);
    for (const struct tcp_op *op = engine->active; op; op = op->next) {
        uint64_t next_ns = op->asked_ns ? now_ns + 10 * TICK_MS * UINT64_C(1000000) : op->deadline_ns;
        if (op->deadline_ns && next_ns < until_ns)
            until_ns = next_ns;
    }
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / 1000000 + 1);
}

/* Until something can be moved, somebody wakes it, or a deadline passes; then moves it. fds: [ranks + 1]. */
static void move(struct tcp_engine *engine, struct pollfd *fds)
{
    uint64_t count;
    fds[engine->ranks] = (struct pollfd){.fd = engine->wake, .events = POLLIN};
    for (int r = 0; r < engine->ranks; r++) {
        struct tcp_peer *peer = &engine->peers[r];
        short wish = tcp_peer_has_to_send(peer) ? POLLIN | POLLOUT : POLLIN;
        fds[r] = (struct pollfd){.fd = peer->socket, .events = wish}; /* one below 0 is passed over */
    }
    if (poll(fds, (nfds_t)engine->ranks + 1, poll_ms(engine)) < 0)
        return;
    if (fds[engine->ranks].revents && read(engine->wake, &count, sizeof count) < 0)
        return;
    for (int r = 0; r < engine->ranks && !engine->ended; r++) {
        if (fds[r].revents & (POLLIN | POLLHUP | POLLERR))
            receive_from(engine, &engine->peers[r]);
        if (!engine->ended && (fds[r].revents & POLLOUT))
            send_to(engine, &engine->peers[r]);
    }
}

/* One round. False once it is told to quit and nothing is left. */
static bool serve(struct tcp_engine *engine, struct pollfd *fds)
{
    pthread_mutex_lock(&engine->mutex);
    while (engine->ended && !engine->quit)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    struct tcp_op *first = engine->queue_first;
    bool abort_asked = engine->abort_asked && !engine->ended;
    bool quits = engine->quit && !first && !engine->active && !abort_asked;
    engine->queue_first = engine->queue_last = NULL;
    pthread_mutex_unlock(&engine->mutex);
    if (quits)
        return false;
    accept_ops(engine, first);
    if (abort_asked)
        end_run(engine, engine->why, NULL, false);
    for (int r = 0; r < engine->ranks && !engine->ended; r++)
        if (tcp_peer_has_to_send(&engine->peers[r]))
            send_to(engine, &engine->peers[r]);
    if (!engine->ended)
        end_ops(engine);
    if (!engine->ended)
        look_for_lost(engine);
    if (!engine->ended && watch_deadlines(engine))
        move(engine, fds);
    if (!engine->ended)
        end_ops(engine);
    return true;
}

/* All leave together, so that nobody takes another's end for a death. */
static void part(struct tcp_engine *engine, struct pollfd *fds)
{
    uint64_t until_ns = clock_now_ns() + CLOSE_NS;
    for (int r = 0; r < engine->ranks; r++)
        tcp_peer_say(&engine->peers[r], TCP_WORD_FAREWELL, "");
    while (!engine->ended && clock_now_ns() < until_ns) {
        bool waits = sends(engine);
        for (int r = 0; r < engine->ranks; r++)
            waits = waits || (engine->peers[r].socket >= 0 && !engine->peers[r].has_left);
        if (!waits)
            return;
        move(engine, fds);
    }
}

void *tcp_thread_main(void *argument)
{
    struct tcp_engine *engine = argument;
    struct pollfd *fds = calloc((size_t)engine->ranks + 1, sizeof *fds);
    if (!fds)
        end_run(engine, "out of memory for TCP", NULL, false);
    while (serve(engine, fds))
        ;
    if (!engine->ended)
        part(engine, fds);
    free(fds);
    return NULL;
}
