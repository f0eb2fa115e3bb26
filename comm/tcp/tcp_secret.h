/*
 * tcp_secret — the optional secret that ranks prove to each other before they talk over TCP.
 *
 * Each side sends a random nonce, then an HMAC-SHA-256 keyed by the secret, over its role and both
 * hellos with their nonces. A proof is therefore useless on another connection or in the other
 * direction. A rank without a secret proves an empty one.
 *
 * Later traffic is neither encrypted nor authenticated. Whoever receives a proof can test guesses
 * against it, so a secret should be random.
 *
 * Threads: any.
 */
#ifndef MILLRACE_COMM_TCP_TCP_SECRET_H
#define MILLRACE_COMM_TCP_TCP_SECRET_H

#include "base/err.h"
#include "comm/tcp/tcp_wire.h"

#include <stddef.h>
#include <stdint.h>

enum { TCP_SECRET_BYTES_MIN = 16, TCP_SECRET_BYTES_MAX = 1024 };

#define TCP_SECRET_VARIABLE      "MILLRACE_SECRET"
#define TCP_SECRET_FILE_VARIABLE "MILLRACE_SECRET_FILE"

struct tcp_secret {
    uint8_t key[TCP_SECRET_BYTES_MAX];
    size_t bytes; /* 0: there is none */
};

enum tcp_role { TCP_ROLE_INITIATOR, TCP_ROLE_RESPONDER };

/* Reads MILLRACE_SECRET, or the file named by MILLRACE_SECRET_FILE without trailing newlines.
 * -EINVAL: both are set, or the secret is too short or too long. -EACCES: users other than the
 * file's owner can read it. Or an error of reading. Errors never contain any of the secret. Clear
 * it after use. */
int tcp_secret_read(struct tcp_secret *ret_secret, struct err *err);
void tcp_secret_clear(struct tcp_secret *secret);

/* Computes what the side with that role sends after both hellos. Errors as hmac_sha256. */
int tcp_secret_prove(const struct tcp_secret *secret, enum tcp_role role,
                     const struct tcp_hello *caller, const struct tcp_hello *called,
                     struct tcp_proof *ret_proof);

#endif
