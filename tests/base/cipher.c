/*
 * cipher — tests that it is a permutation, decrypts correctly, and looks random. Keys are
 * consecutive numbers, so the test is deterministic.
 */
#include "base/cipher.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static struct cipher make_cipher(uint64_t count, uint64_t key)
{
    struct cipher cipher;
    cipher_init(&cipher, count, (const uint64_t[4]){key, 1, 2, 3});
    return cipher;
}

static void every_index_maps_to_one_image_and_back(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1,  2,  3,  4,   5,   7,   8,    9,     15,    16,   17,
                                      63, 64, 65, 255, 256, 257, 1000, 65535, 65536, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t count = counts[i];
        unsigned char *seen = calloc(count, 1);
        assert_non_null(seen);
        for (uint64_t key = 0; key < (count > 300 ? 1 : 20); key++) {
            struct cipher cipher = make_cipher(count, key);
            memset(seen, 0, count);
            for (uint64_t index = 0; index < count; index++) {
                uint64_t image = cipher_encrypt(&cipher, index);
                assert_true(image < count && !seen[image]);
                seen[image] = 1;
                assert_true(cipher_decrypt(&cipher, image) == index);
            }
        }
        free(seen);
    }
}

static void huge_counts_map_forth_and_back(void **state)
{
    (void)state;
    static const uint64_t counts[] = {(UINT64_C(1) << 32) - 1,     (UINT64_C(1) << 32) + 1,
                                      (UINT64_C(1) << 33) + 12345, UINT64_C(10000000000),
                                      UINT64_MAX / 2 + 2,          UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct cipher cipher = make_cipher(counts[i], 7);
        for (uint64_t n = 0; n < 1000; n++) {
            uint64_t index = n * (counts[i] / 1000), image = cipher_encrypt(&cipher, index);
            assert_true(image < counts[i]);
            assert_true(cipher_decrypt(&cipher, image) == index);
        }
    }
}

static void every_key_word_changes_the_permutation(void **state)
{
    (void)state;
    const uint64_t key[4] = {10, 20, 30, 40};
    struct cipher plain, other;
    cipher_init(&plain, 1000, key);
    for (int word = 0; word < 4; word++) {
        uint64_t changed[4];
        memcpy(changed, key, sizeof key);
        changed[word] ^= UINT64_C(1) << 63;
        cipher_init(&other, 1000, changed);
        int same = 0;
        for (uint64_t index = 0; index < 1000; index++)
            same += cipher_encrypt(&plain, index) == cipher_encrypt(&other, index);
        assert_in_range(same, 0, 10); /* 1 expected */
    }
}

/* The statistic's mean is cells - 1, its variance twice that; the limit is six standard
 * deviations. */
static void assert_uniform(const uint32_t *counts, size_t cells, double expected)
{
    double chi = 0, freedom = (double)cells - 1;
    for (size_t i = 0; i < cells; i++)
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    if ((chi - freedom) * (chi - freedom) > 36 * 2 * freedom)
        fail_msg("chi-square %.1f with %.0f degrees of freedom", chi, freedom);
}

static void pairs_of_images_are_uniform(void **state)
{
    (void)state;
    enum { KEYS = 60000 };
    static const uint64_t counts[] = {3, 13, 16, 19};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t count = counts[i];
        for (uint64_t second = 1; second < count; second += count / 3) {
            uint32_t pairs[19 * 18] = {0};
            for (uint64_t key = 0; key < KEYS; key++) {
                struct cipher cipher = make_cipher(count, key);
                uint64_t a = cipher_encrypt(&cipher, 0), b = cipher_encrypt(&cipher, second);
                pairs[a * (count - 1) + (b < a ? b : b - 1)]++;
            }
            assert_uniform(pairs, count * (count - 1), KEYS / (double)(count * (count - 1)));
        }
    }
}

static void all_permutations_of_five_are_equally_likely(void **state)
{
    (void)state;
    enum { KEYS = 60000 };
    uint32_t permutations[120] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        struct cipher cipher = make_cipher(5, key);
        uint32_t rank = 0, used = 0;
        for (uint32_t index = 0; index < 5; index++) {
            uint32_t image = (uint32_t)cipher_encrypt(&cipher, index), below = 0;
            for (uint32_t smaller = 0; smaller < image; smaller++)
                below += !(used >> smaller & 1);
            used |= 1u << image;
            rank = rank * (5 - index) + below;
        }
        permutations[rank]++;
    }
    assert_uniform(permutations, 120, KEYS / 120.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_maps_to_one_image_and_back),
        cmocka_unit_test(huge_counts_map_forth_and_back),
        cmocka_unit_test(every_key_word_changes_the_permutation),
        cmocka_unit_test(pairs_of_images_are_uniform),
        cmocka_unit_test(all_permutations_of_five_are_equally_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
