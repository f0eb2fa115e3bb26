/*
 * cipher — see cipher.h.
 *
 * A value of left_bits + right_bits bits is split into (L, R). Even rounds change L by a function
 * of R, odd rounds R by a function of L.
 */
#include "base/cipher.h"

#include "base/philox.h"

#include <assert.h>

void cipher_init(struct cipher *cipher, uint64_t count, const uint64_t key[4])
{
    assert(count >= 1);
    uint32_t bits = 2;
    while (bits < 64 && (count - 1) >> bits)
        bits++;
    cipher->count = count;
    cipher->left_bits = bits / 2;
    cipher->right_bits = bits - bits / 2;
    cipher->rounds = count < 256 ? 24 : 12;
    for (uint32_t i = 0; i < CIPHER_ROUNDS_MAX; i += 4) {
        /* two chained Philox blocks: each round's key depends on all four words */
        struct philox_block a = philox(key[0], key[1], i);
        uint64_t mixed = (uint64_t)a.word[0] << 32 | a.word[1];
        struct philox_block b =
            philox(key[2] ^ mixed, key[3], (uint64_t)a.word[2] << 32 | a.word[3]);
        for (uint32_t j = 0; j < 4; j++)
            cipher->key[i + j] = b.word[j];
    }
}

static uint32_t round_function(uint32_t half, uint32_t key)
{
    uint32_t h = half ^ key; /* at most 32 bits */
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    return h + key;
}

static uint64_t mask(uint32_t bits)
{
    return (UINT64_C(1) << bits) - 1; /* bits <= 32 */
}

static uint64_t encrypt_pass(const struct cipher *c, uint64_t value)
{
    uint64_t left = value >> c->right_bits, right = value & mask(c->right_bits);
    for (uint32_t round = 0; round < c->rounds; round += 2) {
        left ^= round_function((uint32_t)right, c->key[round]) & mask(c->left_bits);
        right ^= round_function((uint32_t)left, c->key[round + 1]) & mask(c->right_bits);
    }
    return left << c->right_bits | right;
}

static uint64_t decrypt_pass(const struct cipher *c, uint64_t value)
{
    uint64_t left = value >> c->right_bits, right = value & mask(c->right_bits);
    for (uint32_t round = c->rounds; round > 0; round -= 2) {
        right ^= round_function((uint32_t)left, c->key[round - 1]) & mask(c->right_bits);
        left ^= round_function((uint32_t)right, c->key[round - 2]) & mask(c->left_bits);
    }
    return left << c->right_bits | right;
}

uint64_t cipher_encrypt(const struct cipher *cipher, uint64_t index)
{
    assert(index < cipher->count);
    do {
        index = encrypt_pass(cipher, index);
    } while (index >= cipher->count);
    return index;
}

uint64_t cipher_decrypt(const struct cipher *cipher, uint64_t image)
{
    assert(image < cipher->count);
    do {
        image = decrypt_pass(cipher, image);
    } while (image >= cipher->count);
    return image;
}
