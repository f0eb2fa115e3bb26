/*
 * tcp_wire — see tcp_wire.h.
 */
#include "comm/tcp/tcp_wire.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

static_assert(sizeof(struct tcp_hello) == 72, "no padding: a proof covers all bytes of a hello");

bool tcp_hello_decode(const void *data, uint64_t token, struct tcp_hello *ret_hello)
{
    struct tcp_hello hello;
    memcpy(&hello, data, sizeof hello);
    if (hello.magic != TCP_HELLO_MAGIC || hello.token != token || hello.ranks < 2 ||
        hello.ranks > TCP_RANKS_MAX || hello.rank < 0 || hello.rank >= hello.ranks ||
        hello.listen_port < 0 || hello.listen_port > UINT16_MAX || (hello.has_secret & ~1) != 0)
        return false;
    *ret_hello = hello;
    return true;
}

static bool is_valid_address(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)address)->sin6_port != 0;
    return address->ss_family == AF_INET && ((const struct sockaddr_in *)address)->sin_port != 0;
}

int tcp_addresses_decode(const void *data, int ranks, struct tcp_address *ret_addresses,
                         struct err *err)
{
    memcpy(ret_addresses, data, (size_t)ranks * sizeof *ret_addresses);
    for (int r = 1; r < ranks; r++)
        if (!is_valid_address(&ret_addresses[r].address))
            return err_set(err, -EPROTO, "rank 0 sent no address for rank %d", r);
    return 0;
}

enum tcp_frame_kind tcp_frame_classify(const struct tcp_frame *frame, enum tcp_control *ret_control)
{
    if (frame->tag < TCP_TAGS_COUNT * TCP_COMM_IDS_COUNT)
        return TCP_FRAME_DATA;
    if (frame->tag < TCP_TAG_CONTROL || frame->tag - TCP_TAG_CONTROL >= TCP_CONTROL_COUNT ||
        frame->bytes != TCP_CONTROL_BYTES)
        return TCP_FRAME_INVALID;
    *ret_control = (enum tcp_control)(frame->tag - TCP_TAG_CONTROL);
    return TCP_FRAME_CONTROL;
}
