/*
 * tcp_wire — the binary format of the data that TCP ranks exchange, and its validation.
 *
 * Hellos and proofs open a connection (tcp_rendezvous.h); frames follow (tcp_engine.h). Structs are
 * sent as stored in memory: all machines of a run must have the same byte order and layout.
 *
 *     initiator                                 responder
 *     hello, nonce          ── 1 ──>            from this run?
 *     from this run?        <── 2 ──            hello, nonce
 *     proof                 ── 3 ──>            valid?
 *     valid?                <── 4 ──            proof
 *
 * The initiator proves the secret first, so connecting reveals no proof. The responder counts the
 * initiator as present after 3; the initiator is connected after 4. If it receives no answer, it
 * reconnects.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_COMM_TCP_TCP_WIRE_H
#define MILLRACE_COMM_TCP_TCP_WIRE_H

#include "base/err.h"
#include "base/hmac.h"
#include "comm/engine/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { TCP_RANKS_MAX = 512 /* every pair of ranks has a connection */, TCP_NONCE_BYTES = 32 };

/* "milrace3"; change it whenever this format or the frame tags change. */
#define TCP_HELLO_MAGIC UINT64_C(0x3365636172696c6d)

struct tcp_hello {
    uint64_t magic, token;
    uint64_t run_id; /* 0: unknown */
    int32_t rank, ranks;
    int32_t listen_port; /* 0: none */
    int32_t has_secret;  /* for error messages */
    uint8_t nonce[TCP_NONCE_BYTES];
};

struct tcp_proof {
    uint8_t mac[SHA256_BYTES];
};

struct tcp_address {
    struct sockaddr_storage address;
};

struct tcp_frame {
    uint64_t tag, bytes;
};

/* Tags of the engine's control frames. Each frame carries TCP_CONTROL_BYTES. */
enum tcp_control {
    TCP_CONTROL_END,
    TCP_CONTROL_ACTIVITY_QUERY,
    TCP_CONTROL_ACTIVITY,
    TCP_CONTROL_GOODBYE,
    TCP_CONTROL_COUNT
};
enum { TCP_CONTROL_BYTES = ENGINE_REASON_BYTES };
#define TCP_TAG_CONTROL (UINT64_MAX - TCP_CONTROL_COUNT)
#define TCP_TAGS_COUNT  (UINT64_C(1) << 24) /* per communicator */
/* Ids are reused only after a long time. */
#define TCP_COMM_IDS_COUNT (1u << 30)

/* data: sizeof (struct tcp_hello) bytes. Returns false unless it is a valid hello with that
 * token. */
bool tcp_hello_decode(const void *data, uint64_t token, struct tcp_hello *ret_hello);

/* data: ranks * sizeof (struct tcp_address) bytes. -EPROTO names the rank with an invalid entry.
 * Ignores rank 0's entry. */
int tcp_addresses_decode(const void *data, int ranks, struct tcp_address *ret_addresses,
                         struct err *err);

enum tcp_frame_kind { TCP_FRAME_INVALID, TCP_FRAME_DATA, TCP_FRAME_CONTROL };

/* Sets *ret_control if it returns TCP_FRAME_CONTROL. */
enum tcp_frame_kind tcp_frame_classify(const struct tcp_frame *frame,
                                       enum tcp_control *ret_control);

#endif
