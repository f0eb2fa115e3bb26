/*
 * hmac — SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), computed by OpenSSL's libcrypto.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_BASE_HMAC_H
#define MILLRACE_BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

/* -ENOMEM; -ENOTSUP if the library's configuration lacks SHA-256. */
int sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES]);

/* key_bytes: at most INT_MAX. Returns the errors of sha256. */
int hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                uint8_t ret_mac[SHA256_BYTES]);

/* Constant time: use it if either side is secret. */
bool hmac_is_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
