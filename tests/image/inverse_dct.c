/*
 * inverse_dct — all kernels give the samples of the definition (ITU-T T.81, A.3.3), within one, and
 * the same ones; blocks out of range are reported by all. jpeg_fast.c compares with libjpeg.
 */
#include "image/jpeg_fast/inverse_dct.h"

#include "base/philox.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { SEED = 5, BLOCKS_MAX = 9, ROUNDS = 300, STRIDE = 8 * BLOCKS_MAX };

struct blocks {
    _Alignas(32) int16_t coefficient[BLOCKS_MAX][64];
    uint8_t samples[8 * STRIDE];
    uint32_t count;
};

static uint32_t draw(uint32_t number, uint32_t what, uint32_t below)
{
    return philox(SEED, number, what).word[0] % below;
}

static struct blocks draw_blocks(uint32_t number, uint32_t magnitude)
{
    struct blocks blocks = {.count = 1 + number % BLOCKS_MAX};
    for (uint32_t i = 0; i < blocks.count; i++) {
        for (uint32_t k = draw(number, 1000 + i, 64); k > 0; k--) {
            uint32_t what = i * 64 + k;
            blocks.coefficient[i][draw(number, what, 64)] =
                (int16_t)((int32_t)draw(number, 5000 + what, 2 * magnitude + 1) -
                          (int32_t)magnitude);
        }
    }
    return blocks;
}

static struct inverse_dct_quant draw_quant(uint32_t number, uint32_t most)
{
    struct inverse_dct_quant quant;
    uint16_t factors[64];
    for (uint32_t i = 0; i < 64; i++)
        factors[i] = (uint16_t)(1 + draw(number, 9000 + i, most));
    assert_true(inverse_dct_quant_init(&quant, factors));
    return quant;
}

static bool transform(enum image_kernels kernels, const struct inverse_dct_quant *quant,
                      struct blocks *blocks)
{
    struct inverse_dct_block list[BLOCKS_MAX];
    for (uint32_t i = 0; i < blocks->count; i++)
        list[i] = (struct inverse_dct_block){blocks->coefficient[i], blocks->samples + 8 * i};
    bool in_range = inverse_dct(kernels, quant, list, blocks->count, STRIDE);
    for (uint32_t i = 0; i < blocks->count; i++)
        for (int k = 0; k < 64; k++)
            assert_int_equal(blocks->coefficient[i][k], 0);
    return in_range;
}

static double define_sample(const int16_t *coefficient, const int16_t *factor, int x, int y)
{
    double sum = 0;
    for (int v = 0; v < 8; v++) {
        for (int u = 0; u < 8; u++) {
            double scale = (u ? 1 : sqrt(0.5)) * (v ? 1 : sqrt(0.5)) / 4;
            sum += scale * coefficient[8 * v + u] * factor[8 * v + u] *
                   cos((2 * x + 1) * u * M_PI / 16) * cos((2 * y + 1) * v * M_PI / 16);
        }
    }
    return fmin(fmax(sum + 128, 0), 255);
}

static void samples_are_those_of_the_definition(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < ROUNDS; number++) {
        struct inverse_dct_quant quant = draw_quant(number, 4);
        struct blocks given = draw_blocks(number, 25), blocks = given;
        assert_true(transform(IMAGE_KERNELS_PLAIN, &quant, &blocks));
        for (uint32_t i = 0; i < given.count; i++) {
            for (int k = 0; k < 64; k++) {
                double wanted = define_sample(given.coefficient[i], quant.factor, k % 8, k / 8);
                assert_true(fabs(blocks.samples[k / 8 * STRIDE + 8 * i + k % 8] - wanted) < 1.01);
            }
        }
    }
}

static void all_kernels_agree(void **state)
{
    (void)state;
    uint32_t out_of_range = 0;
    for (enum image_kernels k = 0; k < IMAGE_KERNELS_COUNT; k++) {
        for (uint32_t number = 0; number < 10 * ROUNDS && image_kernels_supported(k); number++) {
            struct inverse_dct_quant quant = draw_quant(number, number % 3 ? 20 : 255);
            struct blocks plain = draw_blocks(number, number % 5 ? 6 : 1 + number), best = plain;
            bool in_range = transform(IMAGE_KERNELS_PLAIN, &quant, &plain);
            assert_int_equal(in_range, transform(k, &quant, &best));
            out_of_range += !in_range;
            if (in_range)
                assert_memory_equal(&plain, &best, sizeof plain);
        }
    }
    assert_true(out_of_range > ROUNDS);
}

/* A block of only a DC coefficient is flat: (DC x factor + 4) / 8 + 128. */
static void the_limits_of_the_range_are_exact(void **state)
{
    (void)state;
    uint16_t factors[64] = {1};
    struct inverse_dct_quant quant;
    assert_true(inverse_dct_quant_init(&quant, factors));
    for (enum image_kernels k = 0; k < IMAGE_KERNELS_COUNT; k++) {
        for (int dc = -1100; dc <= 1100 && image_kernels_supported(k); dc++) {
            struct blocks blocks = {.count = 1, .coefficient = {{(int16_t)dc}}};
            bool fits = dc >= -INVERSE_DCT_COEFFICIENT_MAX && dc <= INVERSE_DCT_COEFFICIENT_MAX;
            assert_int_equal(transform(k, &quant, &blocks), fits);
            int wanted = (int)floor((dc + 4) / 8.0) + 128;
            if (fits)
                assert_int_equal(blocks.samples[0], wanted < 0 ? 0 : wanted > 255 ? 255 : wanted);
        }
    }
    factors[9] = INVERSE_DCT_QUANT_MAX + 1;
    assert_false(inverse_dct_quant_init(&quant, factors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_of_the_definition),
        cmocka_unit_test(all_kernels_agree),
        cmocka_unit_test(the_limits_of_the_range_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
