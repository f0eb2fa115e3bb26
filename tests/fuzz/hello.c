/*
 * hello — fuzz target: the first frame of a connection to a TCP rank, and the list of addresses
 * from rank 0 (comm/tcp/tcp_wire.h). The target corrects the token of the first hello.
 */
#include "comm/tcp/tcp_wire.h"
#include "tests/fuzz/fuzz.h"

#include <netinet/in.h>

static void check_hello(const uint8_t *data)
{
    struct tcp_hello sent_hello, hello;
    memcpy(&sent_hello, data, sizeof sent_hello);
    if (!tcp_hello_decode(data, sent_hello.token, &hello))
        return;
    /* a token of another run */
    if (tcp_hello_decode(data, sent_hello.token + 1, &hello))
        abort();
    if (hello.rank < 0 || hello.rank >= hello.ranks || hello.ranks > TCP_RANKS_MAX ||
        hello.listen_port < 0 || hello.listen_port > UINT16_MAX)
        abort();
}

static void check_addresses(const uint8_t *data, size_t bytes)
{
    static struct tcp_address places[TCP_RANKS_MAX];
    struct err err;
    size_t ranks = bytes / sizeof places[0];
    if (ranks > TCP_RANKS_MAX || tcp_addresses_decode(data, (int)ranks, places, &err))
        return;
    for (size_t r = 1; r < ranks; r++)
        if (places[r].address.ss_family != AF_INET && places[r].address.ss_family != AF_INET6)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes >= sizeof(struct tcp_hello))
        check_hello(data);
    check_addresses(data, bytes);
    return 0;
}
