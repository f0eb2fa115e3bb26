/*
 * tcp_secret — the optional secret that ranks prove to each other before they talk over TCP.
 *
 * Each side sends a random nonce and then the HMAC-SHA-256, under the secret, of both hellos, their
 * nonces in them, and of which side it is. So no proof serves on another connection or in the other
 * direction, and the secret itself is never sent. A rank without a secret proves an empty one.
 *
 * The proof is of who connects: what follows is neither encrypted nor authenticated. A proof lets
 * whoever receives it test guesses, so a secret should be random.
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

enum tcp_role { TCP_ROLE_CALLER, TCP_ROLE_CALLED };

/* From the environment: MILLRACE_SECRET, or the contents of the file that MILLRACE_SECRET_FILE
 * names, without newlines at its end. -EINVAL where both are set, or the secret is too short or too
 * long; -EACCES where others than the file's owner may read it; or that of reading. Errors never
 * hold any of it. Clear it after use. */
int tcp_secret_read(struct tcp_secret *ret_secret, struct err *err);
void tcp_secret_clear(struct tcp_secret *secret);

/* What the side of that role sends after both hellos. Errors as hmac_sha256. */
int tcp_secret_prove(const struct tcp_secret *secret, enum tcp_role role,
                     const struct tcp_hello *caller, const struct tcp_hello *called,
                     struct tcp_proof *ret_proof);

#endif
