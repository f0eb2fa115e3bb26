/*
 * frames — fuzz target: data from another rank over an established TCP connection
 * (comm/tcp/tcp_thread.h). Some messages are expected; the worst allowed outcome is an error on the
 * connection.
 */
#include "comm/tcp/tcp_thread.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { AWAITED_COUNT = 4, AWAITED_BYTES = 24, INPUT_BYTES_MAX = 1 << 16 };

static void receive_all(struct tcp_peer *peer)
{
    enum tcp_control control = TCP_CONTROL_COUNT;
    struct err err = {0};
    bool more = true;
    int status = 0;
    while (more && status >= 0) {
        status = tcp_peer_receive(peer, &control, &more, &err);
        if (status > 0 && ((unsigned)control >= TCP_CONTROL_COUNT ||
                           !memchr(peer->control_text, '\0', TCP_CONTROL_BYTES)))
            abort();
        if (status < 0 && status != -EPIPE && err.code != status)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tcp_op op = {.base.purpose = "the weights"};
    struct tcp_message awaited[AWAITED_COUNT];
    struct tcp_peer peer = {.rank = 1};
    char received[AWAITED_COUNT][AWAITED_BYTES];
    struct err err;
    int pair[2];
    if (bytes > INPUT_BYTES_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return 0;
    peer.socket = pair[0];
    /* the first receives start after the input arrives, the others before */
    for (int i = 0; i < AWAITED_COUNT; i++) {
        awaited[i] = (struct tcp_message){
            .data = received[i], .frame = {(uint64_t)i / 2, AWAITED_BYTES}, .peer = 1, .op = &op};
        if (i >= AWAITED_COUNT / 2)
            tcp_peer_post(&peer, &awaited[i], false, &err);
    }
    bool is_sent = send(pair[1], data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
    if (is_sent && bytes > 0)
        receive_all(&peer);
    for (int i = 0; i < AWAITED_COUNT / 2 && is_sent; i++)
        tcp_peer_post(&peer, &awaited[i], false, &err);
    close(pair[1]);
    tcp_peer_deinit(&peer);
    return 0;
}
