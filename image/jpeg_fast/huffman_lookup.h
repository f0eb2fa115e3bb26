/*
 * huffman_lookup — a Huffman table of a JPEG as an array that is indexed by the next bits of the
 * stream (ITU-T T.81, F.2.2).
 *
 * One look-up of HUFFMAN_LOOKUP_BITS gives a whole symbol with its coefficient: the bits to
 * consume, the number of coefficients to advance by, and a number to add to the consumed bits.
 * The index includes the first bit after the code, the sign of the coefficient, so
 *
 *     coefficient = (consumed bits as an unsigned number) + base   (mod 2^16)
 *
 * where base removes the code and, if negative, applies HUFF_EXTEND (F.12). Longer codes and
 * invalid ones have minus_bits = 0; huffman_lookup_long decodes them.
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_HUFFMAN_LOOKUP_H
#define MILLRACE_IMAGE_JPEG_FAST_HUFFMAN_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HUFFMAN_LOOKUP_BITS = 11,
    HUFFMAN_CODE_BITS_MAX = 16,
    HUFFMAN_DC_SIZE_MAX = 11, /* bits of a difference or coefficient of an 8-bit image (F.1.2) */
    HUFFMAN_AC_SIZE_MAX = 10,
    HUFFMAN_SYMBOL_BITS_MAX = HUFFMAN_CODE_BITS_MAX + HUFFMAN_DC_SIZE_MAX,
    HUFFMAN_ADVANCE_END = 128, /* ends the block */
};

struct huffman_entry {
    int8_t minus_bits; /* -(bits of the code and of the coefficient); 0: longer or invalid code */
    uint8_t advance;   /* run of zeros + 1, or HUFFMAN_ADVANCE_END */
    uint16_t base;
};

/* A table as the file defines it: counts[n] codes of n bits for n = 1..16, then the symbols. */
struct huffman_table {
    const uint8_t *counts, *symbols; /* 17 and up to 256; borrowed */
};

struct huffman_lookup {
    struct huffman_entry entry[1 << HUFFMAN_LOOKUP_BITS]; /* must be first */
    /* codes of n bits, shifted left to 16, are below limit[n] and at least limit[n - 1] */
    uint32_t limit[HUFFMAN_CODE_BITS_MAX + 1];
    int32_t offset[HUFFMAN_CODE_BITS_MAX + 1]; /* symbol index - code */
    uint8_t counts[HUFFMAN_CODE_BITS_MAX + 1], symbols[256];
    bool is_dc, is_built;
};

/* Builds the look-up of a table, or keeps it if it was built from the same one. False if libjpeg
 * rejects the table or a size exceeds those of 8-bit images; the look-up is then unusable. */
bool huffman_lookup_build(struct huffman_lookup *lookup, struct huffman_table table, bool is_dc);

/* Decodes the symbol at the top of bits; the upper HUFFMAN_SYMBOL_BITS_MAX are valid. lookup: the
 * first entry of a huffman_lookup. False, with an entry that ends the block: no code matches. */
bool huffman_lookup_long(const struct huffman_entry *lookup, uint64_t bits,
                         struct huffman_entry *ret_entry);

#endif
