/*
 * huffman_lookup — see huffman_lookup.h.
 */
#include "image/jpeg_fast/huffman_lookup.h"

#include <string.h>

enum { RUN_OF_ZEROS = 0xf0 };

static uint32_t size_of(uint8_t symbol)
{
    return symbol & 15;
}

static uint8_t advance_of(uint8_t symbol, bool is_dc)
{
    if (is_dc)
        return 1;
    /* libjpeg ends the block at any symbol without coefficient except a run of 16 zeros */
    if (size_of(symbol) == 0 && symbol != RUN_OF_ZEROS)
        return HUFFMAN_ADVANCE_END;
    return (uint8_t)((symbol >> 4) + 1);
}

static struct huffman_entry entry_of(uint8_t symbol, bool is_dc, uint32_t code, uint32_t code_bits,
                                     bool is_negative)
{
    uint32_t size = size_of(symbol);
    uint32_t base = 0 - (code << size);
    if (is_negative && size > 0)
        base -= (1U << size) - 1;
    return (struct huffman_entry){(int8_t) - (int32_t)(code_bits + size), advance_of(symbol, is_dc),
                                  (uint16_t)base};
}

static void fill(struct huffman_entry *entries, uint32_t count, struct huffman_entry entry)
{
    for (uint32_t i = 0; i < count; i++)
        entries[i] = entry;
}

static void fill_code(struct huffman_lookup *lookup, uint8_t symbol, uint32_t code,
                      uint32_t code_bits)
{
    bool has_sign = size_of(symbol) > 0;
    if (code_bits + has_sign > HUFFMAN_LOOKUP_BITS)
        return;
    uint32_t count = 1U << (HUFFMAN_LOOKUP_BITS - code_bits), half = has_sign ? count / 2 : 0;
    struct huffman_entry *entries = lookup->entry + (code << (HUFFMAN_LOOKUP_BITS - code_bits));
    fill(entries, half, entry_of(symbol, lookup->is_dc, code, code_bits, true));
    fill(entries + half, count - half, entry_of(symbol, lookup->is_dc, code, code_bits, false));
}

/* Rejects what libjpeg's jpeg_make_d_derived_tbl rejects, and sizes beyond 8-bit images'. */
static bool build(struct huffman_lookup *lookup)
{
    uint32_t code = 0, symbol = 0;
    memset(lookup->entry, 0, sizeof lookup->entry);
    for (uint32_t bits = 1; bits <= HUFFMAN_CODE_BITS_MAX; bits++) {
        lookup->offset[bits] = (int32_t)symbol - (int32_t)code;
        if (symbol + lookup->counts[bits] > sizeof lookup->symbols)
            return false;
        for (uint32_t i = 0; i < lookup->counts[bits]; i++, code++, symbol++) {
            uint8_t value = lookup->symbols[symbol];
            if (code >= 1U << bits || (lookup->is_dc ? value > HUFFMAN_DC_SIZE_MAX
                                                     : size_of(value) > HUFFMAN_AC_SIZE_MAX))
                return false;
            fill_code(lookup, value, code, bits);
        }
        if (code >= 1U << bits && symbol > 0)
            return false; /* no code consists of ones only */
        lookup->limit[bits] = code << (HUFFMAN_CODE_BITS_MAX - bits);
        code <<= 1;
    }
    return true;
}

bool huffman_lookup_build(struct huffman_lookup *lookup, struct huffman_table table, bool is_dc)
{
    size_t symbols = 0;
    for (uint32_t bits = 1; bits <= HUFFMAN_CODE_BITS_MAX; bits++)
        symbols += table.counts[bits];
    if (symbols > sizeof lookup->symbols)
        return false;
    if (lookup->is_built && lookup->is_dc == is_dc &&
        memcmp(lookup->counts + 1, table.counts + 1, HUFFMAN_CODE_BITS_MAX) == 0 &&
        memcmp(lookup->symbols, table.symbols, symbols) == 0)
        return true;
    memcpy(lookup->counts, table.counts, sizeof lookup->counts);
    memcpy(lookup->symbols, table.symbols, symbols);
    lookup->is_dc = is_dc;
    lookup->is_built = build(lookup);
    return lookup->is_built;
}

bool huffman_lookup_long(const struct huffman_entry *lookup, uint64_t bits,
                         struct huffman_entry *ret_entry)
{
    const struct huffman_lookup *table = (const struct huffman_lookup *)lookup;
    uint32_t next = (uint32_t)(bits >> 48);
    for (uint32_t code_bits = 1; code_bits <= HUFFMAN_CODE_BITS_MAX; code_bits++) {
        if (next < table->limit[code_bits]) {
            uint32_t code = next >> (HUFFMAN_CODE_BITS_MAX - code_bits);
            uint8_t symbol = table->symbols[(int32_t)code + table->offset[code_bits]];
            bool is_negative = (bits << code_bits >> 63) == 0;
            *ret_entry = entry_of(symbol, table->is_dc, code, code_bits, is_negative);
            return true;
        }
    }
    *ret_entry = (struct huffman_entry){-1, HUFFMAN_ADVANCE_END, 0};
    return false;
}
