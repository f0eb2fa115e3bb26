/*
 * entropy — see entropy.h.
 */
#include "image/jpeg_fast/entropy.h"

#include <string.h>

enum { SPILL = 64, POSITIONS = HUFFMAN_ADVANCE_END + 64 };

#define REPEAT_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x

/* From the position in zigzag order. Coefficients after a run beyond the block replace the last
 * one, as in libjpeg (jpeg_natural_order). */
/* clang-format off */
static const uint8_t natural[POSITIONS] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
    REPEAT_16(63),
    REPEAT_16(SPILL), REPEAT_16(SPILL), REPEAT_16(SPILL), REPEAT_16(SPILL),
    REPEAT_16(SPILL), REPEAT_16(SPILL), REPEAT_16(SPILL),
};
/* clang-format on */

#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t load_bits(const uint8_t *data, uint64_t position_bits)
{
    uint64_t bits;
    memcpy(&bits, data + (position_bits >> 3), sizeof bits);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return bits << (position_bits & 7);
}

/* Chooses the table of the next symbol; without a branch, because it would be mispredicted. */
INLINE const struct huffman_entry *choose_table(uint64_t k, const struct huffman_entry *dc,
                                                const struct huffman_entry *ac)
{
#ifdef __x86_64__
    __asm__("testq %[k], %[k]\n\t"
            "cmovzq %[dc], %[ac]"
            : [ac] "+r"(ac)
            : [k] "r"(k), [dc] "rm"(dc)
            : "cc");
    return ac;
#else
    return k ? ac : dc;
#endif
}

/* Proceeds to the next block if this one is complete; without a branch. */
INLINE void finish_block(struct entropy_stream *at)
{
    struct entropy_block *next = at->block + 1;
#ifdef __x86_64__
    static const uint64_t zero;
    __asm__("cmpq $63, %[k]\n\t"
            "cmovaq %[zero], %[k]\n\t"
            "cmovaq %[next], %[block]"
            : [k] "+&r"(at->k), [block] "+r"(at->block)
            : [zero] "m"(zero), [next] "r"(next)
            : "cc");
#else
    bool is_complete = at->k > 63;
    at->block = is_complete ? next : at->block;
    at->k = is_complete ? 0 : at->k;
#endif
}

/* Decodes the symbol at the top of bits, and its coefficient. Returns minus the number of bits. */
INLINE int64_t decode_symbol(const struct huffman_entry *table, uint64_t index, uint64_t bits,
                             const uint8_t *order, struct entropy_stream *at, bool *is_valid)
{
    const struct huffman_entry *entry = &table[index];
    int64_t minus_bits = entry->minus_bits;
    uint64_t advance = entry->advance;
    uint16_t base = entry->base;
    if (__builtin_expect(minus_bits == 0, 0)) {
        struct huffman_entry found;
        *is_valid &= huffman_lookup_long(table, bits, &found);
        minus_bits = found.minus_bits;
        advance = found.advance;
        base = found.base;
    }
    at->k += advance;
    at->block->coefficient[order[at->k - 1]] =
        (int16_t)(uint16_t)((bits >> (minus_bits & 63)) + base);
    at->position_bits -= (uint64_t)minus_bits;
    return minus_bits;
}

INLINE uint64_t index_of(uint64_t bits)
{
    return bits >> (64 - HUFFMAN_LOOKUP_BITS);
}

INLINE void step(const uint8_t *data, const uint8_t *order, struct entropy_stream *at,
                 bool *is_valid)
{
    uint64_t bits = load_bits(data, at->position_bits);
    const struct huffman_entry *table = choose_table(at->k, at->block->dc, at->block->ac);
    decode_symbol(table, index_of(bits), bits, order, at, is_valid);
    finish_block(at);
}

/* A single stream waits for each result, so this one trades instructions for a shorter chain of
 * dependent ones: the next index comes from the bits already loaded, and the next table from
 * candidates that do not depend on the symbol. */
INLINE bool decode_one(const uint8_t *data, struct entropy_stream *stream)
{
    struct entropy_stream at = *stream;
    bool is_valid = true;
    uint64_t index = index_of(load_bits(data, at.position_bits));
    const struct huffman_entry *table = choose_table(at.k, at.block->dc, at.block->ac);
    do {
        uint64_t bits = load_bits(data, at.position_bits);
        const struct huffman_entry *dc = at.block[1].dc, *ac = at.block->ac;
        int64_t minus_bits = decode_symbol(table, index, bits, natural, &at, &is_valid);
        index = index_of(bits << (-minus_bits & 63));
        finish_block(&at);
        table = choose_table(at.k, dc, ac);
    } while (at.block != at.end);
    *stream = at;
    return is_valid;
}

/* count is a constant in each instance, so that the streams' state is in registers. */
INLINE bool decode(const uint8_t *data, struct entropy_stream *streams, uint32_t count)
{
    struct entropy_stream a = streams[0], b = streams[1], c = streams[count > 2 ? 2 : 0];
    bool is_valid = true;
    uint8_t order[POSITIONS]; /* on the stack: the stack pointer is its base, no other register */
    memcpy(order, natural, sizeof order);
    do {
        step(data, order, &a, &is_valid);
        step(data, order, &b, &is_valid);
        if (count > 2)
            step(data, order, &c, &is_valid);
    } while (a.block != a.end && b.block != b.end && (count < 3 || c.block != c.end));
    streams[0] = a;
    streams[1] = b;
    if (count > 2)
        streams[2] = c;
    return is_valid;
}

INLINE bool decode_any(const uint8_t *data, struct entropy_stream *streams, uint32_t count)
{
    switch (count) {
    case 1:
        return decode_one(data, streams);
    case 2:
        return decode(data, streams, 2);
    default:
        return decode(data, streams, 3);
    }
}

#ifdef __x86_64__
/* Shifts by variable counts are one instruction with BMI2, three without. */
__attribute__((target("bmi2"))) static bool
decode_bmi2(const uint8_t *data, struct entropy_stream *streams, uint32_t count)
{
    return decode_any(data, streams, count);
}
#endif

bool entropy_decode(enum image_kernels kernels, const uint8_t *data, struct entropy_stream *streams,
                    uint32_t count)
{
#ifdef __x86_64__
    if (kernels != IMAGE_KERNELS_PLAIN && __builtin_cpu_supports("bmi2"))
        return decode_bmi2(data, streams, count);
#endif
    (void)kernels;
    return decode_any(data, streams, count);
}
