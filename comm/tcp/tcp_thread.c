/*
 * tcp_thread — the engine's thread. See tcp_thread.h.
 */
#include "comm/tcp/tcp_thread.h"

#include "base/clock.h"
#include "base/os/trace.h"
#include "comm/engine/engine_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTIFY_NS         CLOCK_NS_PER_S /* to notify the other ranks of the end of the run */
#define CLOSE_NS          (10 * CLOCK_NS_PER_S) /* for the other ranks to close */
#define CHECK_INTERVAL_NS (5 * CLOCK_NS_PER_S)  /* between checks for lost machines */
enum { IDLE_MS = 1000, TICK_MS = 1 };

/* Ending the run. */

static bool any_peer_has_unsent(const struct tcp_engine *engine)
{
    for (int r = 0; r < engine->base.ranks; r++)
        if (tcp_peer_has_unsent(&engine->peers[r]))
            return true;
    return false;
}

static void close_peer(struct tcp_peer *peer)
{
    close(peer->socket);
    peer->socket = -1;
}

/* Returns false if nothing is left to send. */
static bool send_control_frames(struct tcp_engine *engine)
{
    bool waits = false;
    for (int r = 0; r < engine->base.ranks; r++) {
        struct tcp_peer *peer = &engine->peers[r];
        if (tcp_peer_has_unsent(peer) && tcp_peer_send(peer, true))
            close_peer(peer);
        waits = waits || tcp_peer_has_unacked(peer);
    }
    return waits;
}

/* Waits for acknowledgments: exiting with unread data would drop frames in flight. */
void tcp_thread_notify_others(struct engine *base)
{
    struct tcp_engine *engine = tcp_engine_of(base);
    uint64_t until_ns = clock_now_ns() + NOTIFY_NS;
    for (int r = 0; r < base->ranks; r++)
        tcp_peer_queue_control(&engine->peers[r], TCP_CONTROL_END, base->reason);
    while (send_control_frames(engine) && clock_now_ns() < until_ns)
        poll(NULL, 0, TICK_MS);
}

const char *tcp_thread_query_activity(struct engine *engine, int rank, uint64_t since_ns,
                                      uint64_t *ret_queried_ns)
{
    struct tcp_peer *peer = &tcp_engine_of(engine)->peers[rank];
    if (peer->queried_ns < since_ns && (peer->has_replied || !peer->queried_ns)) {
        tcp_peer_queue_control(peer, TCP_CONTROL_ACTIVITY_QUERY, "");
        peer->queried_ns = clock_now_ns();
        peer->has_replied = false;
    }
    *ret_queried_ns = peer->queried_ns;
    return peer->has_replied ? peer->answer : NULL;
}

/* Control frames. */

static void handle_control(struct tcp_engine *engine, struct tcp_peer *peer,
                           enum tcp_control control)
{
    char answer[ENGINE_ACTIVITY_BYTES];
    switch (control) {
    case TCP_CONTROL_END:
        engine_end_run(&engine->base, peer->control_text, NULL, true);
        break;
    case TCP_CONTROL_ACTIVITY_QUERY:
        engine_format_activity(&engine->base, answer);
        tcp_peer_queue_control(peer, TCP_CONTROL_ACTIVITY, answer);
        break;
    case TCP_CONTROL_ACTIVITY:
        peer->has_replied = true;
        memcpy(peer->answer, peer->control_text, sizeof peer->answer);
        break;
    default:
        peer->has_left = true;
        break;
    }
}

/* Connections. */

/* Ends the run because of a failed connection. detail: NULL unless a frame is invalid. */
static void end_run_on_connection_failure(struct tcp_engine *engine, struct tcp_peer *peer,
                                          int status, const struct err *detail)
{
    char reason[TCP_CONTROL_BYTES];
    int rank = peer->rank, own = engine->base.rank;
    close_peer(peer);
    const struct tcp_message *waits = peer->posted_first ? peer->posted_first : peer->sends_first;
    if (detail)
        snprintf(reason, sizeof reason, "rank %d: %.150s", own, detail->what);
    else if (status == -ETIMEDOUT)
        snprintf(reason, sizeof reason, "rank %d is gone: its machine does not answer rank %d",
                 rank, own);
    else if (!peer->has_left)
        snprintf(reason, sizeof reason, "rank %d is gone: its connection to rank %d has ended",
                 rank, own);
    else if (waits)
        snprintf(reason, sizeof reason, "rank %d has left while rank %d waits for it in %.60s",
                 rank, own, waits->op->base.purpose);
    else
        return;
    engine_end_run(&engine->base, reason, detail, false);
}

/* Detects lost machines before TCP does. */
static void check_for_lost(struct tcp_engine *engine)
{
    uint64_t now_ns = clock_now_ns();
    if (now_ns - engine->checked_ns < CHECK_INTERVAL_NS)
        return;
    engine->checked_ns = now_ns;
    for (int r = 0; r < engine->base.ranks && !engine->base.has_ended; r++)
        if (tcp_peer_is_lost(&engine->peers[r]))
            end_run_on_connection_failure(engine, &engine->peers[r], -ETIMEDOUT, NULL);
}

static void receive_from(struct tcp_engine *engine, struct tcp_peer *peer)
{
    bool more = true;
    while (more && peer->socket >= 0 && !engine->base.has_ended) {
        struct err detail = {0};
        enum tcp_control control;
        int status = tcp_peer_receive(peer, &control, &more, &detail);
        if (status > 0)
            handle_control(engine, peer, control);
        if (status < 0)
            end_run_on_connection_failure(engine, peer, status, status == -EPIPE ? NULL : &detail);
        else if (!engine->base.has_ended && peer->has_left &&
                 (peer->posted_first || peer->sends_first)) /* no more messages will arrive */
            end_run_on_connection_failure(engine, peer, -EPIPE, NULL);
    }
}

/* Unread data of a closed connection may contain the reason. */
static void send_to(struct tcp_engine *engine, struct tcp_peer *peer)
{
    if (peer->socket < 0 || tcp_peer_send(peer, false) == 0)
        return;
    receive_from(engine, peer);
    if (!engine->base.has_ended && peer->socket >= 0)
        end_run_on_connection_failure(engine, peer, -EPIPE, NULL);
}

/* Progress. */

static int poll_ms(const struct tcp_engine *engine)
{
    uint64_t now_ns = clock_now_ns(), until_ns = now_ns + IDLE_MS * UINT64_C(1000000);
    for (struct engine_op *op = engine->base.active_ops; op; op = op->next) {
        uint64_t due_ns = engine_op_deadline_ns(op),
                 tick_ns = now_ns + 10 * TICK_MS * UINT64_C(1000000);
        uint64_t next_ns = due_ns > now_ns ? due_ns : tick_ns; /* inquiries are in flight */
        if (next_ns < until_ns)
            until_ns = next_ns;
    }
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / 1000000 + 1);
}

/* Waits for ready sockets, a wakeup or a deadline, then transfers data. fds: [ranks + 1]. */
static void wait_and_transfer(struct tcp_engine *engine, struct pollfd *fds)
{
    int ranks = engine->base.ranks;
    uint64_t count;
    fds[ranks] = (struct pollfd){.fd = engine->wake, .events = POLLIN};
    for (int r = 0; r < ranks; r++) {
        struct tcp_peer *peer = &engine->peers[r];
        short poll_events = tcp_peer_has_unsent(peer) ? POLLIN | POLLOUT : POLLIN;
        /* poll ignores negative descriptors. */
        fds[r] = (struct pollfd){.fd = peer->socket, .events = poll_events};
    }
    int ready = poll(fds, (nfds_t)ranks + 1, poll_ms(engine));
    if (ready < 0 || (fds[ranks].revents && read(engine->wake, &count, sizeof count) < 0))
        return;
    if (ready == (fds[ranks].revents != 0)) /* only the wakeup */
        return;
    uint64_t began_ns = trace_begin(engine->base.track);
    for (int r = 0; r < ranks && !engine->base.has_ended; r++) {
        if (fds[r].revents & (POLLIN | POLLHUP | POLLERR))
            receive_from(engine, &engine->peers[r]);
        if (!engine->base.has_ended && (fds[r].revents & POLLOUT))
            send_to(engine, &engine->peers[r]);
    }
    engine_progress(&engine->base);
    trace_end(engine->base.track, "progress", began_ns);
}

static void start_ops(struct tcp_engine *engine, struct engine_op *first, bool abort_requested)
{
    uint64_t began_ns = first ? trace_begin(engine->base.track) : 0;
    engine_start_ops(&engine->base, first, abort_requested);
    for (int r = 0; r < engine->base.ranks && !engine->base.has_ended; r++)
        if (tcp_peer_has_unsent(&engine->peers[r]))
            send_to(engine, &engine->peers[r]);
    engine_progress(&engine->base);
    trace_end(engine->base.track, "progress", began_ns);
}

/* Returns false if quit is set and nothing is left to do. */
static bool serve(struct tcp_engine *engine, struct pollfd *fds)
{
    struct engine *base = &engine->base;
    pthread_mutex_lock(&base->mutex);
    while (base->has_ended && !base->quit_requested)
        pthread_cond_wait(&base->completion, &base->mutex);
    bool abort_requested = base->abort_requested && !base->has_ended;
    struct engine_op *first = engine_take_queued_ops(base);
    bool quits = base->quit_requested && !base->active_ops && !abort_requested;
    pthread_mutex_unlock(&base->mutex);
    if (quits)
        return false;
    start_ops(engine, first, abort_requested);
    if (!base->has_ended)
        check_for_lost(engine);
    engine_check_deadlines(base);
    if (!base->has_ended)
        wait_and_transfer(engine, fds);
    return true;
}

/* All ranks leave together; otherwise a closed connection would look like a failure. */
static void exchange_goodbyes(struct tcp_engine *engine, struct pollfd *fds)
{
    uint64_t until_ns = clock_now_ns() + CLOSE_NS;
    for (int r = 0; r < engine->base.ranks; r++)
        tcp_peer_queue_control(&engine->peers[r], TCP_CONTROL_GOODBYE, "");
    while (!engine->base.has_ended && clock_now_ns() < until_ns) {
        bool waits = any_peer_has_unsent(engine);
        for (int r = 0; r < engine->base.ranks; r++)
            waits = waits || (engine->peers[r].socket >= 0 && !engine->peers[r].has_left);
        if (!waits)
            return;
        wait_and_transfer(engine, fds);
    }
}

void *tcp_thread_main(void *argument)
{
    struct tcp_engine *engine = argument;
    struct pollfd *fds = calloc((size_t)engine->base.ranks + 1, sizeof *fds);
    if (!fds)
        engine_end_run(&engine->base, "out of memory for TCP", NULL, false);
    while (serve(engine, fds))
        ;
    if (!engine->base.has_ended)
        exchange_goodbyes(engine, fds);
    free(fds);
    return NULL;
}
