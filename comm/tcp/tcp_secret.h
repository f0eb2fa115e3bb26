/*
 * tcp_secret — an optional shared secret that authenticates TCP ranks.
 *
 * Each side sends a hello with a random nonce, then an HMAC-SHA-256, keyed by the secret, of its
 * role and both hellos. A proof thus cannot be replayed on another connection or in the other
 * direction. Without a secret, the key is empty.
 *
 * Later traffic is neither encrypted nor authenticated.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_COMM_TCP_TCP_SECRET_H
#define MILLRACE_COMM_TCP_TCP_SECRET_H

#include "base/err.h"
#include "comm/tcp/tcp_rendezvous_options.h"
#include "comm/tcp/tcp_wire.h"

#define TCP_SECRET_VARIABLE      "MILLRACE_SECRET"
#define TCP_SECRET_FILE_VARIABLE "MILLRACE_SECRET_FILE"

enum tcp_role { TCP_ROLE_INITIATOR, TCP_ROLE_RESPONDER };

/* Reads MILLRACE_SECRET, or the file MILLRACE_SECRET_FILE without trailing newlines. -EINVAL: both
 * are set, or the length is invalid. -EACCES: other users can read the file. Otherwise, a read
 * error. Errors never contain the secret. Clear *ret_secret after use. */
int tcp_secret_read(struct tcp_secret *ret_secret, struct err *err);
void tcp_secret_clear(struct tcp_secret *secret);

/* Computes the proof that the side with this role sends. Returns the errors of hmac_sha256. */
int tcp_secret_prove(const struct tcp_secret *secret, enum tcp_role role,
                     const struct tcp_hello *initiator, const struct tcp_hello *responder,
                     struct tcp_proof *ret_proof);

#endif
