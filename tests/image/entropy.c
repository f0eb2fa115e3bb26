/*
 * entropy — blocks written by a plain encoder are read back from one, two and three streams, by all
 * kernels, up to the last bit; an invalid code is noticed.
 */
#include "image/jpeg_fast/entropy.h"

#include "base/philox.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { SEED = 23, BLOCKS = 24, DATA_BYTES = 1 << 16, ROUNDS = 60 };

/* Codes of 4 to 16 bits. */
static const uint8_t dc_counts[17] = {[4] = 12};
static const uint8_t dc_symbols[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const uint8_t ac_counts[17] = {[2] = 1, [4] = 6, [7] = 20, [8] = 40, [11] = 60, [16] = 35};
static uint8_t ac_symbols[162];

static struct huffman_lookup dc, ac;
static uint8_t data[DATA_BYTES + BLOCKS * ENTROPY_BLOCK_BYTES_MAX + ENTROPY_READ_BYTES];
static uint64_t written_bits;

static const uint8_t zigzag[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                   12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                   35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                   58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

static uint32_t draw(uint64_t number, uint32_t what, uint32_t below)
{
    return philox(SEED, (uint32_t)number, what).word[0] % below;
}

static int build_tables(void **state)
{
    (void)state;
    ac_symbols[0] = 0; /* end of block */
    ac_symbols[1] = 0xf0;
    for (uint32_t k = 0; k < 160; k++)
        ac_symbols[2 + k] = (uint8_t)(k % 16 * 16 + k / 16 + 1);
    return huffman_lookup_build(&dc, (struct huffman_table){dc_counts, dc_symbols}, true) &&
                   huffman_lookup_build(&ac, (struct huffman_table){ac_counts, ac_symbols}, false)
               ? 0
               : -1;
}

/* ---- The encoder. ---- */

static void put_bits(uint32_t value, uint32_t count)
{
    for (uint32_t i = count; i-- > 0; written_bits++) {
        uint8_t bit = (uint8_t)(128U >> written_bits % 8);
        data[written_bits / 8] &= (uint8_t)~bit;
        data[written_bits / 8] |= value >> i & 1 ? bit : 0;
    }
}

static void put_symbol(const uint8_t *counts, const uint8_t *symbols, uint8_t symbol)
{
    uint32_t code = 0, k = 0;
    for (uint32_t bits = 1; bits <= 16; bits++, code <<= 1) {
        for (uint32_t i = 0; i < counts[bits]; i++, code++) {
            if (symbols[k++] == symbol) {
                put_bits(code, bits);
                return;
            }
        }
    }
    fail_msg("the table has no symbol %d", symbol);
}

static uint32_t size_of(int value)
{
    uint32_t size = 0;
    for (int magnitude = abs(value); magnitude > 0; magnitude >>= 1)
        size++;
    return size;
}

static void put_value(int value, uint32_t size)
{
    put_bits((uint32_t)(value < 0 ? value - 1 : value) & ((1U << size) - 1), size);
}

static void put_block(const int16_t *coefficient)
{
    uint32_t run = 0, size = size_of(coefficient[0]);
    put_symbol(dc_counts, dc_symbols, (uint8_t)size);
    put_value(coefficient[0], size);
    for (int k = 1; k < 64; k++) {
        int value = coefficient[zigzag[k]];
        if (value == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            put_symbol(ac_counts, ac_symbols, 0xf0);
        size = size_of(value);
        put_symbol(ac_counts, ac_symbols, (uint8_t)(run * 16 + size));
        put_value(value, size);
        run = 0;
    }
    if (run > 0)
        put_symbol(ac_counts, ac_symbols, 0);
}

/* ---- Tests. ---- */

static void draw_block(int16_t *coefficient, uint64_t number)
{
    memset(coefficient, 0, 64 * sizeof coefficient[0]);
    coefficient[0] = (int16_t)((int)draw(number, 0, 4095) - 2047);
    for (uint32_t count = draw(number, 1, 4) ? draw(number, 2, 64) : 0, i = 0; i < count; i++) {
        int magnitude = (int)draw(number, 10 + i, draw(number, 100 + i, 4) ? 4 : 1024);
        uint32_t k = 1 + draw(number, 200 + i, 63);
        coefficient[k] = (int16_t)(draw(number, 300 + i, 2) ? magnitude : -magnitude);
    }
}

static void decode_streams(enum image_kernels kernels, uint32_t count, uint64_t round)
{
    static int16_t wanted[ENTROPY_STREAMS_MAX][BLOCKS][64];
    static struct entropy_block blocks[ENTROPY_STREAMS_MAX][BLOCKS + 1];
    struct entropy_stream streams[ENTROPY_STREAMS_MAX] = {{0}};
    uint64_t end_bits[ENTROPY_STREAMS_MAX];
    memset(blocks, 0, sizeof blocks);
    written_bits = 0;
    for (uint32_t s = 0; s < count; s++) {
        written_bits = (written_bits + 7) / 8 * 8;
        streams[s] = (struct entropy_stream){
            .position_bits = written_bits, .block = blocks[s], .end = blocks[s] + BLOCKS};
        for (uint32_t i = 0; i <= BLOCKS; i++) {
            blocks[s][i].dc = dc.entry;
            blocks[s][i].ac = ac.entry;
        }
        for (uint32_t i = 0; i < BLOCKS; i++) {
            draw_block(wanted[s][i], (round * ENTROPY_STREAMS_MAX + s) * BLOCKS + i);
            put_block(wanted[s][i]);
        }
        end_bits[s] = written_bits;
    }
    assert_true(written_bits < 8 * DATA_BYTES);
    while (count > 0) { /* until all streams are full, one after another */
        assert_true(entropy_decode(kernels, data, streams, count));
        for (uint32_t s = count; s-- > 0;) {
            if (streams[s].block != streams[s].end)
                continue;
            for (uint32_t which = 0; which < ENTROPY_STREAMS_MAX; which++) {
                if (streams[s].end != blocks[which] + BLOCKS)
                    continue;
                assert_int_equal(streams[s].position_bits, end_bits[which]);
                for (uint32_t i = 0; i < BLOCKS; i++)
                    assert_memory_equal(blocks[which][i].coefficient, wanted[which][i],
                                        sizeof wanted[which][i]);
            }
            streams[s] = streams[--count];
        }
    }
}

static void written_blocks_are_read_back(void **state)
{
    (void)state;
    for (enum image_kernels k = 0; k < IMAGE_KERNELS_COUNT; k++) {
        for (uint64_t round = 0; round < ROUNDS && image_kernels_supported(k); round++)
            decode_streams(k, 1 + round % ENTROPY_STREAMS_MAX, round);
    }
}

static void an_invalid_code_is_noticed(void **state)
{
    (void)state;
    static struct entropy_block blocks[BLOCKS + 1];
    for (uint32_t i = 0; i <= BLOCKS; i++) {
        blocks[i].dc = dc.entry;
        blocks[i].ac = ac.entry;
    }
    memset(data, 0xff, sizeof data);
    struct entropy_stream stream = {.block = blocks, .end = blocks + BLOCKS};
    assert_false(entropy_decode(image_kernels_best(), data, &stream, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_blocks_are_read_back),
        cmocka_unit_test(an_invalid_code_is_noticed),
    };
    return cmocka_run_group_tests(tests, build_tables, NULL);
}
