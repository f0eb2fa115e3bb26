/*
 * huffman_lookup — every code of random tables decodes to its symbol and coefficient, as by the
 * bit-by-bit procedure of ITU-T T.81 (F.2.2.3); tables that libjpeg rejects are rejected.
 */
#include "image/jpeg_fast/huffman_lookup.h"

#include "base/philox.h"
#include "tests/support/test.h"

#include <string.h>

enum { SEED = 11, TABLES = 200 };

static uint32_t draw(uint32_t table, uint32_t what, uint32_t below)
{
    return philox(SEED, table, what).word[0] % below;
}

/* A table with codes of all lengths; as many as fit. */
struct random_table {
    uint8_t counts[17], symbols[256];
    uint32_t symbols_count;
};

static struct random_table draw_table(uint32_t number, bool is_dc)
{
    struct random_table table = {0};
    uint32_t free_codes = 1, most = is_dc ? 12 : 162;
    for (uint32_t bits = 1; bits <= 16; bits++) {
        free_codes = 2 * free_codes;
        uint32_t count = draw(number, bits, 3 + (bits > 6 ? 40 : 0));
        if (count > free_codes - 1)
            count = free_codes - 1;
        if (count > most - table.symbols_count)
            count = most - table.symbols_count;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t k = table.symbols_count++;
            /* AC: all runs with sizes 1 to 10, then end of block and a run of 16 */
            table.symbols[k] = (uint8_t)(is_dc     ? k
                                         : k < 160 ? k / 10 * 16 + k % 10 + 1
                                                   : (k - 160) * 0xf0);
        }
        table.counts[bits] = (uint8_t)count;
        free_codes -= count;
    }
    return table;
}

/* The coefficient of `size` bits (T.81, F.2.2.1, EXTEND). */
static int extend(uint32_t bits, uint32_t size)
{
    return size == 0 ? 0 : bits < 1U << (size - 1) ? (int)bits - (1 << size) + 1 : (int)bits;
}

static struct huffman_entry look_up(const struct huffman_lookup *lookup, uint64_t bits)
{
    struct huffman_entry entry = lookup->entry[bits >> (64 - HUFFMAN_LOOKUP_BITS)];
    if (entry.minus_bits == 0)
        assert_true(huffman_lookup_long(lookup->entry, bits, &entry));
    return entry;
}

static void check_code(const struct huffman_lookup *lookup, uint8_t symbol, uint32_t code,
                       uint32_t code_bits, uint32_t number)
{
    uint32_t size = symbol & 15, value = draw(number, 99 + symbol, 1U << size);
    uint64_t rest = (uint64_t)draw(number, 500 + symbol, 1U << 30) << 2;
    uint64_t bits = (uint64_t)code << (64 - code_bits);
    if (size > 0)
        bits |= (uint64_t)value << (64 - code_bits - size);
    bits |= rest >> (code_bits + size); /* what follows must not matter */
    struct huffman_entry entry = look_up(lookup, bits);
    assert_int_equal(-entry.minus_bits, code_bits + size);
    uint16_t coefficient = (uint16_t)((bits >> (64 - code_bits - size)) + entry.base);
    assert_int_equal((int16_t)coefficient, extend(value, size));
    uint32_t advance = lookup->is_dc ? 1 : symbol == 0 ? HUFFMAN_ADVANCE_END : symbol / 16 + 1U;
    assert_int_equal(entry.advance, advance);
}

static void codes_decode_to_their_symbols_and_coefficients(void **state)
{
    (void)state;
    static struct huffman_lookup lookup;
    for (uint32_t number = 0; number < TABLES; number++) {
        bool is_dc = number % 4 == 0;
        struct random_table table = draw_table(number, is_dc);
        struct huffman_table given = {table.counts, table.symbols};
        assert_true(huffman_lookup_build(&lookup, given, is_dc));
        uint32_t code = 0, symbol = 0;
        for (uint32_t bits = 1; bits <= 16; bits++, code <<= 1) {
            for (uint32_t i = 0; i < table.counts[bits]; i++)
                check_code(&lookup, table.symbols[symbol++], code++, bits, number);
        }
        struct huffman_entry entry;
        assert_false(huffman_lookup_long(lookup.entry, UINT64_MAX, &entry));
        assert_int_not_equal(entry.minus_bits, 0);
    }
}

static void tables_that_libjpeg_rejects_are_rejected(void **state)
{
    (void)state;
    static struct huffman_lookup lookup;
    static const uint8_t symbols[256];
    const uint8_t all_ones[17] = {0, 2}, too_many[17] = {0, 1, 3}, full[17] = {0, 0, 3, 1, 1, 1};
    const uint8_t above_256[17] = {[8] = 200, [9] = 57}, big_size[] = {12}, one[17] = {0, 1};
    assert_false(huffman_lookup_build(&lookup, (struct huffman_table){all_ones, symbols}, false));
    assert_false(huffman_lookup_build(&lookup, (struct huffman_table){too_many, symbols}, false));
    assert_false(huffman_lookup_build(&lookup, (struct huffman_table){above_256, symbols}, false));
    assert_false(huffman_lookup_build(&lookup, (struct huffman_table){one, big_size}, true));
    assert_true(huffman_lookup_build(&lookup, (struct huffman_table){full, symbols}, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_decode_to_their_symbols_and_coefficients),
        cmocka_unit_test(tables_that_libjpeg_rejects_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
