/*
 * tcp_peer — the connection to one rank: sends frames in order and matches received frames to
 * posted receives. See tcp_thread.h.
 */
#include "comm/tcp/tcp_thread.h"

#include "comm/engine/engine_thread.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { UNEXPECTED_BYTES_MIN = 1 << 16 };
/* Well above the keepalive idle time, 15 s. */
enum { LOST_TIMEOUT_MS = 75000 };

static void finish_message(struct tcp_message *message)
{
    message->is_done = true;
    message->op->base.done_count++;
}

static int length_error(const struct tcp_message *message, uint64_t bytes, struct err *err)
{
    char found[24];
    snprintf(found, sizeof found, "%llu", (unsigned long long)bytes);
    return engine_size_error(&message->op->base, message->peer, message->frame.bytes, found, err);
}

void tcp_peer_queue_control(struct tcp_peer *peer, enum tcp_control control, const char *text)
{
    if (peer->socket < 0 || peer->controls[control].is_due)
        return;
    peer->controls[control].frame =
        (struct tcp_frame){TCP_TAG_CONTROL + control, TCP_CONTROL_BYTES};
    snprintf(peer->controls[control].text, TCP_CONTROL_BYTES, "%s", text);
    peer->controls[control].sent_bytes = 0;
    peer->controls[control].is_due = true;
}

static void free_unexpected(struct tcp_unexpected *unexpected)
{
    free(unexpected->data);
    free(unexpected);
}

static int grow_unexpected(struct tcp_unexpected *unexpected, uint64_t got_bytes, struct err *err)
{
    if (got_bytes < unexpected->capacity || got_bytes == unexpected->frame.bytes)
        return 0;
    uint64_t capacity = unexpected->capacity < UNEXPECTED_BYTES_MIN ? UNEXPECTED_BYTES_MIN
                                                                    : 2 * unexpected->capacity;
    capacity = capacity < unexpected->frame.bytes ? capacity : unexpected->frame.bytes;
    char *data = realloc(unexpected->data, capacity);
    if (!data)
        return err_set(err, -ENOMEM, "out of memory for a message of %llu bytes",
                       (unsigned long long)unexpected->frame.bytes);
    unexpected->data = data;
    unexpected->capacity = capacity;
    return 0;
}

/* Matches the oldest unmatched message with this tag; delivers it if it is complete. */
static int deliver_unexpected(struct tcp_peer *peer, struct tcp_message *message, bool *ret_found,
                              struct err *err)
{
    struct tcp_unexpected **link = &peer->unexpected_first, *before = NULL;
    *ret_found = false;
    while (*link && ((*link)->frame.tag != message->frame.tag || (*link)->receiver)) {
        before = *link;
        link = &before->next;
    }
    struct tcp_unexpected *unexpected = *link;
    if (!unexpected)
        return 0;
    *ret_found = true;
    if (unexpected->frame.bytes != message->frame.bytes)
        return length_error(message, unexpected->frame.bytes, err);
    unexpected->receiver = message;
    if (!unexpected->is_complete)
        return 0;
    if (message->frame.bytes > 0)
        memcpy(message->data, unexpected->data, message->frame.bytes);
    *link = unexpected->next;
    if (peer->unexpected_last == unexpected)
        peer->unexpected_last = before;
    peer->unexpected_bytes -= sizeof *unexpected + unexpected->frame.bytes;
    free_unexpected(unexpected);
    finish_message(message);
    return 0;
}

static int add_unexpected(struct tcp_peer *peer, const struct tcp_frame *frame,
                          struct tcp_unexpected **ret_message, struct err *err)
{
    if (frame->bytes > TCP_UNEXPECTED_BYTES_MAX ||
        peer->unexpected_bytes + frame->bytes > TCP_UNEXPECTED_BYTES_MAX) {
        err_set(err, -ENOBUFS, "rank %d sent too much data that is not expected yet", peer->rank);
        err_expected(err, "at most %llu bytes", (unsigned long long)TCP_UNEXPECTED_BYTES_MAX);
        err_found(err, "%llu bytes and %llu more", (unsigned long long)peer->unexpected_bytes,
                  (unsigned long long)frame->bytes);
        err_advise(err, "make the ranks wait for each other, or exchange less at a time");
        return -ENOBUFS;
    }
    struct tcp_unexpected *unexpected = malloc(sizeof *unexpected);
    if (!unexpected)
        return err_set(err, -ENOMEM, "out of memory for a message of %llu bytes",
                       (unsigned long long)frame->bytes);
    peer->unexpected_bytes += sizeof *unexpected + frame->bytes;
    *unexpected = (struct tcp_unexpected){.frame = *frame};
    if (peer->unexpected_last)
        peer->unexpected_last->next = unexpected;
    else
        peer->unexpected_first = unexpected;
    peer->unexpected_last = unexpected;
    *ret_message = unexpected;
    return 0;
}

/* Removes and returns the oldest posted receive with this tag, or NULL. */
static struct tcp_message *pop_posted_receive(struct tcp_peer *peer, uint64_t tag)
{
    struct tcp_message **link = &peer->posted_first, *before = NULL;
    while (*link && (*link)->frame.tag != tag) {
        before = *link;
        link = &before->next;
    }
    struct tcp_message *message = *link;
    if (!message)
        return NULL;
    *link = message->next;
    if (peer->posted_last == message)
        peer->posted_last = before;
    return message;
}

/* Completes immediately. */
static int send_to_self(struct tcp_peer *peer, struct tcp_message *message, struct err *err)
{
    struct tcp_message *receiver = pop_posted_receive(peer, message->frame.tag);
    char *target;
    if (receiver && receiver->frame.bytes != message->frame.bytes)
        return length_error(receiver, message->frame.bytes, err);
    if (receiver) {
        target = receiver->data;
        finish_message(receiver);
    } else {
        struct tcp_unexpected *unexpected;
        int status = add_unexpected(peer, &message->frame, &unexpected, err);
        if (status)
            return status;
        while (unexpected->capacity < unexpected->frame.bytes)
            if (grow_unexpected(unexpected, unexpected->capacity, err))
                return -ENOMEM;
        unexpected->is_complete = true;
        target = unexpected->data;
    }
    if (message->frame.bytes > 0)
        memcpy(target, message->data, message->frame.bytes);
    finish_message(message);
    return 0;
}

int tcp_peer_post(struct tcp_peer *peer, struct tcp_message *message, bool is_self, struct err *err)
{
    bool found = false;
    message->next = NULL;
    if (message->is_send && is_self)
        return send_to_self(peer, message, err);
    if (!message->is_send) {
        int status = deliver_unexpected(peer, message, &found, err);
        if (status || found)
            return status;
    }
    if (!is_self && (peer->socket < 0 || peer->has_left))
        return err_set(err, -ECONNABORTED, "%s: rank %d has left", message->op->base.purpose,
                       message->peer);
    struct tcp_message **first = message->is_send ? &peer->sends_first : &peer->posted_first,
                       **last = message->is_send ? &peer->sends_last : &peer->posted_last;
    if (*last)
        (*last)->next = message;
    else
        *first = message;
    *last = message;
    return 0;
}

bool tcp_peer_has_unsent(const struct tcp_peer *peer)
{
    bool has = peer->sends_first != NULL;
    for (int control = 0; control < TCP_CONTROL_COUNT; control++)
        has = has || peer->controls[control].is_due;
    return has && peer->socket >= 0;
}

/* Returns 1 if everything is sent, 0 if the socket would block, or -EPIPE. */
static int send_frame(struct tcp_peer *peer, const struct tcp_frame *frame, const char *data,
                      size_t *sent)
{
    size_t all = sizeof *frame + frame->bytes;
    while (*sent < all) {
        bool in_frame = *sent < sizeof *frame;
        const char *at = in_frame ? (const char *)frame + *sent : data + (*sent - sizeof *frame);
        size_t left = in_frame ? sizeof *frame - *sent : all - *sent;
        ssize_t count =
            send(peer->socket, at, left, MSG_NOSIGNAL | (in_frame && frame->bytes ? MSG_MORE : 0));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno == EAGAIN ? 0 : -EPIPE;
        *sent += (size_t)count;
    }
    return 1;
}

bool tcp_peer_has_unacked(const struct tcp_peer *peer)
{
    int unacked_bytes = 0;
    if (peer->socket < 0)
        return false;
    for (int control = 0; control < TCP_CONTROL_COUNT; control++)
        if (peer->controls[control].is_due)
            return true;
    return ioctl(peer->socket, SIOCOUTQ, &unacked_bytes) == 0 && unacked_bytes > 0;
}

/* Returns the partly sent control frame, else the first queued one, else TCP_CONTROL_COUNT. */
static int next_control(const struct tcp_peer *peer)
{
    int next = TCP_CONTROL_COUNT;
    for (int control = TCP_CONTROL_COUNT - 1; control >= 0; control--)
        if (peer->controls[control].is_due &&
            (next == TCP_CONTROL_COUNT || peer->controls[next].sent_bytes == 0))
            next = control;
    return next;
}

int tcp_peer_send(struct tcp_peer *peer, bool run_ended)
{
    for (;;) {
        int control = next_control(peer), sent_status;
        struct tcp_message *message = run_ended && peer->sent_bytes == 0 ? NULL : peer->sends_first;
        if (control < TCP_CONTROL_COUNT &&
            (peer->sent_bytes == 0 || peer->controls[control].sent_bytes > 0)) {
            sent_status =
                send_frame(peer, &peer->controls[control].frame, peer->controls[control].text,
                           &peer->controls[control].sent_bytes);
            peer->controls[control].is_due = sent_status != 1;
        } else if (message) {
            sent_status = send_frame(peer, &message->frame, message->data, &peer->sent_bytes);
            if (sent_status == 1) {
                peer->sends_first = message->next;
                peer->sends_last = message->next ? peer->sends_last : NULL;
                peer->sent_bytes = 0;
                finish_message(message);
            }
        } else {
            return 0;
        }
        if (sent_status != 1)
            return sent_status;
    }
}

/* Selects the destination of the frame's data. */
static int route_data(struct tcp_peer *peer, struct err *err)
{
    enum tcp_frame_kind kind = tcp_frame_classify(&peer->frame, &peer->control);
    peer->matched_receive = NULL;
    peer->unexpected_message = NULL;
    if (kind == TCP_FRAME_CONTROL)
        return 0;
    if (kind == TCP_FRAME_INVALID)
        return err_set(err, -EPROTO, "rank %d sent an invalid frame", peer->rank);
    peer->matched_receive = pop_posted_receive(peer, peer->frame.tag);
    if (peer->matched_receive)
        return peer->matched_receive->frame.bytes == peer->frame.bytes
                   ? 0
                   : length_error(peer->matched_receive, peer->frame.bytes, err);
    return add_unexpected(peer, &peer->frame, &peer->unexpected_message, err);
}

/* Returns 1 for a control frame. */
static int finish_frame(struct tcp_peer *peer, enum tcp_control *ret_control)
{
    struct tcp_unexpected *unexpected = peer->unexpected_message;
    peer->received_bytes = 0;
    peer->unexpected_message = NULL;
    if (peer->matched_receive) {
        finish_message(peer->matched_receive);
        peer->matched_receive = NULL;
        return 0;
    }
    if (!unexpected) {
        peer->control_text[TCP_CONTROL_BYTES - 1] = '\0';
        *ret_control = peer->control;
        return 1;
    }
    unexpected->is_complete = true;
    if (unexpected->receiver) {
        struct tcp_message *message = unexpected->receiver;
        bool found;
        unexpected->receiver = NULL;
        /* This finds `unexpected`: it is the oldest unmatched message with its tag. */
        deliver_unexpected(peer, message, &found, NULL);
    }
    return 0;
}

int tcp_peer_receive(struct tcp_peer *peer, enum tcp_control *ret_control, bool *ret_more,
                     struct err *err)
{
    *ret_more = false;
    for (;;) {
        bool in_frame = peer->received_bytes < sizeof peer->frame;
        size_t got = in_frame ? peer->received_bytes : peer->received_bytes - sizeof peer->frame;
        int status = in_frame || !peer->unexpected_message
                         ? 0
                         : grow_unexpected(peer->unexpected_message, got, err);
        if (status)
            return status;
        char *data = peer->matched_receive      ? peer->matched_receive->data
                     : peer->unexpected_message ? peer->unexpected_message->data
                                                : peer->control_text;
        char *at = in_frame ? (char *)&peer->frame + got : data + got;
        uint64_t room = peer->unexpected_message && !peer->matched_receive
                            ? peer->unexpected_message->capacity
                            : peer->frame.bytes;
        size_t left = in_frame ? sizeof peer->frame - got : room - got;
        ssize_t count = left > 0 ? recv(peer->socket, at, left, 0) : 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return 0;
        if (count < 0 || (count == 0 && left > 0))
            return -EPIPE;
        peer->received_bytes += (size_t)count;
        if (in_frame && peer->received_bytes < sizeof peer->frame)
            continue;
        status = in_frame ? route_data(peer, err) : 0;
        if (status)
            return status;
        if (peer->received_bytes < sizeof peer->frame + peer->frame.bytes)
            continue;
        *ret_more = true;
        return finish_frame(peer, ret_control);
    }
}

bool tcp_peer_is_lost(const struct tcp_peer *peer)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    return peer->socket >= 0 &&
           getsockopt(peer->socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > LOST_TIMEOUT_MS;
}

void tcp_peer_deinit(struct tcp_peer *peer)
{
    struct tcp_unexpected *next;
    for (struct tcp_unexpected *unexpected = peer->unexpected_first; unexpected;
         unexpected = next) {
        next = unexpected->next;
        free_unexpected(unexpected);
    }
    if (peer->socket >= 0)
        close(peer->socket);
    peer->socket = -1;
}
