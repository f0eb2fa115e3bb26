/*
 * hash — CRC32C, XXH3 and Philox compared with published test vectors.
 */
#include "base/hash.h"
#include "base/crc.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static void crc32c_matches_rfc_3720(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32_zip(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(crc32_zip(crc32_zip(0, "1234", 4), "56789", 5), 0xcbf43926);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(crc32c(0, NULL, 0), 0);
}

static void crc32c_can_be_computed_in_pieces(void **state)
{
    (void)state;
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 >> 3);
    uint32_t whole = crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut += 37)
        assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut), whole);
}

static void separately_computed_crc32cs_can_be_combined(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    unsigned char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 131 >> 3);
    uint32_t whole = crc32c(0, bytes, BYTES);
    static const size_t cuts[] = {0, 1, 7, 512, 4096, 1 << 20, BYTES - 4096, BYTES - 1, BYTES};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        size_t rest = BYTES - cuts[i];
        uint32_t first = crc32c(0, bytes, cuts[i]), second = crc32c(0, bytes + cuts[i], rest);
        assert_int_equal(crc32c_join(first, second, rest), whole);
    }
    free(bytes);
}

static void xxh3_matches_published_values(void **state)
{
    (void)state;
    char hex[HASH128_HEX_BYTES];
    assert_true(hash_64("", 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_64("abc", 3) == UINT64_C(0x78af5f94892f3950));
    assert_string_equal(hash128_format(hash_128("", 0), hex), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(hash128_format(hash_128("abc", 3), hex),
                        "06b05ab6733a618578af5f94892f3950");
}

static void a_stream_gives_the_hash_of_the_whole(void **state)
{
    (void)state;
    unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 ^ i >> 5);
    struct hash_stream *stream = hash_stream_open();
    assert_non_null(stream);
    for (size_t total = 0; total <= sizeof bytes; total += 617) {
        hash_stream_reset(stream);
        for (size_t at = 0, piece = 1; at < total; at += piece, piece = piece * 3 % 401 + 1) {
            if (piece > total - at)
                piece = total - at;
            hash_stream_update(stream, bytes + at, piece);
        }
        struct hash128 whole = hash_128(bytes, total), pieces = hash_stream_128(stream);
        assert_true(whole.high == pieces.high && whole.low == pieces.low);
        assert_true(hash_64(bytes, total) == hash_stream_64(stream));
    }
    hash_stream_close(stream);
    hash_stream_close(NULL);
}

/* From kat_vectors of the Random123 distribution, philox4x32 10. */
static void philox_matches_random123(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, high, low;
        uint32_t word[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x0370734413198a2e),
         UINT64_C(0x85a308d3243f6a88),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct philox_block block = philox(known[i].key, known[i].high, known[i].low);
        assert_memory_equal(block.word, known[i].word, sizeof block.word);
    }
}

static void every_argument_changes_a_samples_random_choices(void **state)
{
    (void)state;
    struct philox_block blocks[] = {
        philox_sample(1, 2, 3, 4, PHILOX_CROP, 0), philox_sample(2, 2, 3, 4, PHILOX_CROP, 0),
        philox_sample(1, 3, 3, 4, PHILOX_CROP, 0), philox_sample(1, 2, 4, 4, PHILOX_CROP, 0),
        philox_sample(1, 2, 3, 5, PHILOX_CROP, 0), philox_sample(1, 2, 3, 4, PHILOX_FLIP, 0),
        philox_sample(1, 2, 3, 4, PHILOX_CROP, 1),
    };
    size_t count = sizeof blocks / sizeof blocks[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&blocks[i], &blocks[j], sizeof blocks[0]);
    assert_true(philox_uniform(0) == 0 && philox_uniform(UINT32_MAX) < 1 &&
                philox_uniform(UINT32_MAX) > 0.9999999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_matches_rfc_3720),
        cmocka_unit_test(crc32c_can_be_computed_in_pieces),
        cmocka_unit_test(separately_computed_crc32cs_can_be_combined),
        cmocka_unit_test(xxh3_matches_published_values),
        cmocka_unit_test(a_stream_gives_the_hash_of_the_whole),
        cmocka_unit_test(philox_matches_random123),
        cmocka_unit_test(every_argument_changes_a_samples_random_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
