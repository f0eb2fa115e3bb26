/*
 * cipher — a keyed permutation of 0..count-1, computed rather than stored. Not cryptographically
 * secure.
 *
 * An alternating Feistel network on ceil(log2 count) bits, at least 2, with 12 murmur-style 32-bit
 * rounds, or 24 if count is below 2^8; fewer rounds fail pair and permutation tests. Results
 * outside the range are encrypted again ("cycle walking"; Black and Rogaway, "Ciphers with
 * arbitrary finite domains", CT-RSA 2002).
 */
#ifndef MILLRACE_BASE_CIPHER_H
#define MILLRACE_BASE_CIPHER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CIPHER_ROUNDS_MAX = 24 };

/* Immutable after init; may be copied. */
struct cipher {
    uint64_t count;
    uint32_t left_bits, right_bits, rounds;
    uint32_t key[CIPHER_ROUNDS_MAX];
};

/* count >= 1 */
void cipher_init(struct cipher *cipher, uint64_t count, const uint64_t key[4]);

/* index < count */
uint64_t cipher_encrypt(const struct cipher *cipher, uint64_t index);
uint64_t cipher_decrypt(const struct cipher *cipher, uint64_t image);

#ifdef __cplusplus
}
#endif

#endif
