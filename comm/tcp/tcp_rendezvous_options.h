/*
 * tcp_rendezvous_options — how the ranks of comm_tcp.h find and recognize each other.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_OPTIONS_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TCP_RENDEZVOUS_PORTS = 16, /* after `port`, of which rank 0 listens on the first free one */
    TCP_SECRET_BYTES_MIN = 16,
    TCP_SECRET_BYTES_MAX = 1024,
};

/* Shared by all ranks. Use random bytes: a received proof allows offline guessing. */
struct tcp_secret {
    uint8_t key[TCP_SECRET_BYTES_MAX];
    size_t bytes; /* 0: none */
};

struct tcp_rendezvous_options {
    const char *address; /* host name or address of rank 0 */
    int port;
    int rank, ranks;
    uint64_t token;                  /* identifies the run */
    const struct tcp_secret *secret; /* NULL: none */
    uint64_t timeout_ns;             /* limit for all ranks to arrive */
    /* Called about every 20 ms; true stops the rendezvous with -EINTR. NULL: never. */
    bool (*wants_stop)(const void *context);
    const void *stop_context;
};

#ifdef __cplusplus
}
#endif

#endif
