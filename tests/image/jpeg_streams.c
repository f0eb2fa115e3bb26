/*
 * jpeg_streams — entropy-coded data that no encoder writes, made symbol by symbol from given
 * Huffman tables, decodes as in libjpeg: runs past the end of a block, runs without a coefficient,
 * only long codes, quantization by zero; segments that end in zeros or too early. The slack after
 * the data bounds what jpeg_fast reads, which AddressSanitizer checks.
 */
#include "base/bytes.h"
#include "base/philox.h"
#include "base/str.h"
#include "image/jpeg/jpeg.h"
#include "tests/image/fixtures.h"
#include "tests/image/jpeg_compare.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEED = 41,
    IMAGES = 200, /* of each kind and ending */
    SIDE_MAX = 60,
    TABLES = 2, /* for the first component and the others */
    CODE_BITS_MAX = 16,
    SYMBOLS_MAX = 64,
    SEGMENT_BYTES_MAX = 1 << 18,
};

/* A kind of data. The symbols of AC tables; those of DC tables are the sizes 0 to dc_sizes - 1. */
struct kind {
    const char *name;
    uint8_t symbols[SYMBOLS_MAX];
    uint32_t count, dc_sizes;
    uint32_t code_bits_min; /* shortest code */
    uint32_t zeros;         /* of 4 quantization factors */
};

static const struct kind kinds[] = {
    {"runs past the end of a block",
     {0x00, 0x71, 0x92, 0xa1, 0xb2, 0xc1, 0xd2, 0xe1, 0xf2},
     9,
     4,
     1,
     0},
    {"runs of 16 zeros past the end of a block", {0xf0, 0x01, 0x41, 0x52}, 4, 4, 1, 0},
    {"runs without a coefficient",
     {0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
      0x01, 0x02, 0x11, 0x31},
     19,
     3,
     1,
     0},
    {"codes of 16 bits only", {0x00, 0x01, 0x02, 0x11, 0x12, 0x21, 0x31, 0xf0, 0x10}, 9, 4, 16, 0},
    {"codes of 12 bits and more",
     {0x00, 0x01, 0x03, 0x11, 0x12, 0x21, 0x31, 0xf0, 0xf1},
     9,
     4,
     12,
     0},
    {"quantization by zero", {0x00, 0x01, 0x02, 0x13, 0x24, 0x15, 0x06, 0xf0}, 8, 5, 1, 3},
    {"all factors zero", {0x00, 0x0a, 0x19, 0x28, 0xfa, 0xf0, 0x70}, 7, 12, 1, 4},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* What follows the last symbol of a segment. A fault is in one segment of the image. */
enum ending { ONES, ZEROS, ZERO_BYTES, MISSING_BYTES, END_OF_FILE, ENDINGS };

static const int samplings[][6] = {
    {1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1},
    {4, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {1, 1, 2, 2, 1, 1},
};
enum { SAMPLINGS = sizeof samplings / sizeof samplings[0] };

struct code_table {
    uint8_t counts[CODE_BITS_MAX + 1], symbols[SYMBOLS_MAX];
    uint16_t code[SYMBOLS_MAX];
    uint8_t code_bits[SYMBOLS_MAX];
    uint32_t count;
};

struct stream {
    uint32_t width, height, components, restart_interval;
    int sampling[6];
    struct code_table dc[TABLES], ac[TABLES];
    uint8_t segment[SEGMENT_BYTES_MAX];
    size_t bits; /* in segment */
    struct str jpeg;
};

/* Random numbers in sequence. */
static uint32_t random_image, random_count;

static uint32_t draw(uint32_t below)
{
    return philox(SEED, random_image, random_count++).word[0] % below;
}

/* ---- Tables. ---- */

/* Draws the lengths of the codes. As much of the code space stays free as the others need, and the
 * code of ones only, which is not allowed. */
static void draw_code_lengths(struct code_table *table, uint32_t code_bits_min)
{
    uint32_t left = table->count, free_codes = 1;
    for (uint32_t bits = 1; bits <= CODE_BITS_MAX; bits++) {
        uint32_t count = 0, longer = CODE_BITS_MAX - bits;
        free_codes *= 2;
        if (bits == CODE_BITS_MAX)
            count = left;
        else if (bits >= code_bits_min && left > 0)
            count = draw(left < free_codes ? left + 1 : free_codes);
        while (((uint64_t)(free_codes - count) << longer) <= left - count)
            count--;
        table->counts[bits] = (uint8_t)count;
        left -= count;
        free_codes -= count;
    }
    assert_int_equal(left, 0);
}

/* In random order, so that any symbol may have the code of zeros only. */
static void draw_table(struct code_table *table, const uint8_t *symbols, uint32_t count,
                       uint32_t code_bits_min)
{
    uint32_t code = 0, k = 0;
    *table = (struct code_table){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = draw(i + 1);
        table->symbols[i] = table->symbols[at];
        table->symbols[at] = symbols[i];
    }
    draw_code_lengths(table, code_bits_min);
    for (uint32_t bits = 1; bits <= CODE_BITS_MAX; bits++, code *= 2) {
        for (uint32_t i = 0; i < table->counts[bits]; i++, k++) {
            table->code[k] = (uint16_t)code++;
            table->code_bits[k] = (uint8_t)bits;
        }
    }
}

/* ---- Segments. ---- */

static void put_bits(struct stream *stream, uint32_t value, uint32_t count)
{
    assert_true(stream->bits + count <= 8 * SEGMENT_BYTES_MAX);
    for (uint32_t i = count; i-- > 0; stream->bits++) {
        uint8_t bit = (uint8_t)(128U >> stream->bits % 8);
        uint8_t *byte = &stream->segment[stream->bits / 8];
        *byte = value >> i & 1 ? *byte | bit : *byte & (uint8_t)~bit;
    }
}

/* Writes a random symbol of the table with random bits of a coefficient. */
static uint8_t put_symbol(struct stream *stream, const struct code_table *table)
{
    uint32_t k = draw(table->count);
    uint8_t symbol = table->symbols[k];
    put_bits(stream, table->code[k], table->code_bits[k]);
    put_bits(stream, draw(1 << 16), symbol & 15);
    return symbol;
}

static void put_block(struct stream *stream, uint32_t component)
{
    put_symbol(stream, &stream->dc[component > 0]);
    for (uint32_t k = 1; k < 64; k++) {
        uint8_t symbol = put_symbol(stream, &stream->ac[component > 0]);
        if ((symbol & 15) == 0 && symbol != 0xf0)
            return;
        k += symbol >> 4;
    }
}

static void put_mcu(struct stream *stream)
{
    for (uint32_t i = 0; i < stream->components; i++) {
        for (int k = stream->sampling[2 * i] * stream->sampling[2 * i + 1]; k > 0; k--)
            put_block(stream, i);
    }
}

/* Ends the segment, and adds it to the file with FF 00 for each FF. */
static void finish_segment(struct stream *stream, enum ending ending)
{
    put_bits(stream, ending == ONES ? 0xff : 0, (uint32_t)(-stream->bits % 8));
    if (ending == ZERO_BYTES) {
        for (uint32_t i = 1 + draw(4); i > 0; i--)
            put_bits(stream, 0, 8);
    }
    size_t bytes = stream->bits / 8;
    if (ending == MISSING_BYTES || ending == END_OF_FILE)
        bytes -= bytes > 0 ? 1 + draw((uint32_t)bytes) : 0;
    for (size_t i = 0; i < bytes; i++) {
        str_add(&stream->jpeg, &stream->segment[i], 1);
        if (stream->segment[i] == 0xff)
            str_add_fill(&stream->jpeg, 0, 1);
    }
    stream->bits = 0;
}

/* ---- Files. ---- */

static void put_u16(struct stream *stream, uint32_t value)
{
    uint8_t bytes[] = {(uint8_t)(value >> 8), (uint8_t)value};
    str_add(&stream->jpeg, bytes, sizeof bytes);
}

static void put_u8(struct stream *stream, uint32_t value)
{
    uint8_t byte = (uint8_t)value;
    str_add(&stream->jpeg, &byte, 1);
}

static void put_huffman_table(struct stream *stream, uint32_t id, const struct code_table *table)
{
    put_u16(stream, 0xffc4);
    put_u16(stream, 2 + 1 + CODE_BITS_MAX + table->count);
    put_u8(stream, id);
    str_add(&stream->jpeg, table->counts + 1, CODE_BITS_MAX);
    str_add(&stream->jpeg, table->symbols, table->count);
}

/* zeros: of 4 factors; the others are 1 to 3. */
static void put_quantization_table(struct stream *stream, uint32_t id, uint32_t zeros)
{
    put_u16(stream, 0xffdb);
    put_u16(stream, 2 + 1 + 64);
    put_u8(stream, id);
    for (int i = 0; i < 64; i++)
        put_u8(stream, draw(4) < zeros ? 0 : 1 + draw(3));
}

static void put_headers(struct stream *stream, uint32_t zeros)
{
    uint32_t components = stream->components;
    put_u16(stream, 0xffd8);
    for (uint32_t i = 0; i < TABLES; i++) {
        put_quantization_table(stream, i, zeros);
        put_huffman_table(stream, i, &stream->dc[i]);
        put_huffman_table(stream, 0x10 | i, &stream->ac[i]);
    }
    put_u16(stream, 0xffc0);
    put_u16(stream, 2 + 6 + 3 * components);
    put_u8(stream, 8);
    put_u16(stream, stream->height);
    put_u16(stream, stream->width);
    put_u8(stream, components);
    for (uint32_t i = 0; i < components; i++) {
        put_u8(stream, i + 1);
        put_u8(stream, (uint32_t)(stream->sampling[2 * i] << 4 | stream->sampling[2 * i + 1]));
        put_u8(stream, i > 0);
    }
    put_u16(stream, 0xffdd);
    put_u16(stream, 4);
    put_u16(stream, stream->restart_interval);
    put_u16(stream, 0xffda);
    put_u16(stream, 2 + 4 + 2 * components);
    put_u8(stream, components);
    for (uint32_t i = 0; i < components; i++) {
        put_u8(stream, i + 1);
        put_u8(stream, i > 0 ? 0x11 : 0);
    }
    put_u8(stream, 0);
    put_u8(stream, 63);
    put_u8(stream, 0);
}

static uint32_t mcu_count(const struct stream *stream)
{
    int h_max = 1, v_max = 1;
    for (uint32_t i = 0; i < stream->components; i++) {
        h_max = stream->sampling[2 * i] > h_max ? stream->sampling[2 * i] : h_max;
        v_max = stream->sampling[2 * i + 1] > v_max ? stream->sampling[2 * i + 1] : v_max;
    }
    return (uint32_t)(bytes_divide_up(stream->width, 8 * (uint32_t)h_max) *
                      bytes_divide_up(stream->height, 8 * (uint32_t)v_max));
}

static bool is_fault(enum ending ending)
{
    return ending != ONES && ending != ZEROS;
}

/* Writes the file of a stream whose size and tables are set. */
static void put_file(struct stream *stream, const struct kind *kind, enum ending ending)
{
    uint32_t mcus = mcu_count(stream);
    uint32_t interval = stream->restart_interval ? stream->restart_interval : mcus;
    uint32_t segments = (mcus + interval - 1) / interval, faulty = draw(segments);
    str_clear(&stream->jpeg);
    put_headers(stream, kind->zeros);
    for (uint32_t i = 0; i < segments; i++) {
        bool has_fault = is_fault(ending) && i == faulty;
        for (uint32_t k = i * interval; k < mcus && k < (i + 1) * interval; k++)
            put_mcu(stream);
        finish_segment(stream, is_fault(ending) && !has_fault ? ONES : ending);
        if (ending == END_OF_FILE && has_fault)
            break;
        put_u16(stream, i + 1 < segments ? 0xffd0 + i % 8 : 0xffd9);
    }
    assert_int_equal(str_status(&stream->jpeg), 0);
}

static void draw_stream(struct stream *stream, const struct kind *kind, enum ending ending,
                        uint32_t number)
{
    static const uint8_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    random_image = number;
    random_count = 0;
    stream->width = 1 + draw(SIDE_MAX);
    stream->height = 1 + draw(SIDE_MAX);
    stream->components = draw(4) ? 3 : 1;
    stream->restart_interval = draw(6);
    memcpy(stream->sampling, samplings[stream->components == 3 ? draw(SAMPLINGS) : 0],
           sizeof stream->sampling);
    for (uint32_t i = 0; i < TABLES; i++) {
        draw_table(&stream->dc[i], sizes, kind->dc_sizes, kind->code_bits_min);
        draw_table(&stream->ac[i], kind->symbols, kind->count, kind->code_bits_min);
    }
    put_file(stream, kind, ending);
}

static struct stream *new_stream(void)
{
    struct stream *stream = calloc(1, sizeof *stream);
    assert_non_null(stream);
    return stream;
}

static void free_stream(struct stream *stream)
{
    str_deinit(&stream->jpeg);
    free(stream);
}

/* Compares the whole image and a part, in memory of exactly the file's size. */
static void compare(struct jpeg_compare *decoders, const struct stream *stream, const char *name)
{
    size_t bytes = stream->jpeg.bytes;
    unsigned char *jpeg = malloc(bytes);
    assert_non_null(jpeg);
    memcpy(jpeg, stream->jpeg.data, bytes);
    struct image_rect part = {.x = draw(stream->width), .y = draw(stream->height)};
    part.width = 1 + draw(stream->width - part.x);
    part.height = 1 + draw(stream->height - part.y);
    jpeg_compare_part(decoders, jpeg, bytes, name,
                      (struct image_rect){0, 0, stream->width, stream->height});
    jpeg_compare_part(decoders, jpeg, bytes, name, part);
    free(jpeg);
}

/* ---- Tests. ---- */

/* Compares images of all kinds with this ending. */
static void compare_kinds(struct stream *stream, enum ending ending, struct jpeg_compare *decoders)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        for (uint32_t number = 0; number < IMAGES; number++) {
            draw_stream(stream, &kinds[i], ending, (ending * KINDS + i) * IMAGES + number);
            compare(&decoders[i], stream, kinds[i].name);
        }
    }
}

static void compare_endings(enum ending first, enum ending end, struct jpeg_compare *decoders)
{
    struct stream *stream = new_stream();
    for (uint32_t i = 0; i < KINDS; i++)
        decoders[i] = jpeg_compare_open();
    for (enum ending ending = first; ending < end; ending++)
        compare_kinds(stream, ending, decoders);
    for (uint32_t i = 0; i < KINDS; i++) {
        printf("seed %d: %s: %d parts, %d accepted, %d by jpeg_fast\n", SEED, kinds[i].name,
               (int)decoders[i].parts, (int)decoders[i].accepted, (int)decoders[i].used_fast);
        jpeg_compare_close(&decoders[i]);
    }
    free_stream(stream);
}

static void unusual_symbols_decode_as_in_libjpeg(void **state)
{
    (void)state;
    struct jpeg_compare decoders[KINDS];
    compare_endings(ONES, ZERO_BYTES, decoders);
    for (uint32_t i = 0; i < KINDS; i++) {
        assert_int_equal(decoders[i].accepted, decoders[i].parts);
        assert_int_equal(decoders[i].used_fast, decoders[i].parts);
    }
}

static void segments_of_a_wrong_length_have_libjpegs_verdict(void **state)
{
    (void)state;
    struct jpeg_compare decoders[KINDS];
    compare_endings(ZERO_BYTES, ENDINGS, decoders);
    for (uint32_t i = 0; i < KINDS; i++)
        assert_in_range(decoders[i].accepted, 1, decoders[i].parts - 1);
}

/* A table of two codes of 16 bits; the first consists of zeros. */
static struct code_table long_table(uint8_t first, uint8_t second)
{
    return (struct code_table){
        .counts = {[CODE_BITS_MAX] = 2}, .symbols = {first, second}, .count = 2};
}

/* Memory of zeros decodes as the longest symbols: codes of 16 bits and the largest sizes. A new
 * decoder has only the memory that a scan of almost no bytes needs, and it is zero. */
static void reading_past_the_end_stays_in_the_slack(void **state)
{
    (void)state;
    struct stream *stream = new_stream();
    for (uint32_t i = 0; i < TABLES; i++) {
        stream->dc[i] = long_table(11, 0);
        stream->ac[i] = long_table(0x0a, 0);
    }
    stream->width = 300;
    stream->height = 16;
    stream->components = 3;
    for (int sampling = 0; sampling < SAMPLINGS; sampling++) {
        memcpy(stream->sampling, samplings[sampling], sizeof stream->sampling);
        for (uint32_t interval = 0; interval < 10; interval++) {
            struct jpeg_compare decoders = jpeg_compare_open();
            uint32_t mcus = mcu_count(stream);
            stream->restart_interval = interval;
            str_clear(&stream->jpeg);
            put_headers(stream, 0);
            for (uint32_t mcu = interval; interval > 0 && mcu < mcus; mcu += interval) {
                put_u8(stream, 0);
                put_u16(stream, 0xffd0 + (mcu / interval - 1) % 8);
            }
            put_u8(stream, 0);
            put_u16(stream, 0xffd9);
            compare(&decoders, stream, "a scan of almost no bytes");
            assert_int_equal(decoders.accepted, 0);
            jpeg_compare_close(&decoders);
        }
    }
    free_stream(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusual_symbols_decode_as_in_libjpeg),
        cmocka_unit_test(segments_of_a_wrong_length_have_libjpegs_verdict),
        cmocka_unit_test(reading_past_the_end_stays_in_the_slack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
