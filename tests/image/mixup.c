/*
 * mixup — compares draws with closed forms and numpy, boxes and blends with their specification,
 * and results with golden hashes.
 */
#include "image/mixup.h"

#include "base/hash.h"
#include "base/philox.h"
#include "image/kernels/blend.h"
#include "image/pipeline/beta.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct mixup *open_mixup(struct mixup_options options)
{
    struct mixup *mixup;
    struct err err;
    assert_ok(mixup_open(&options, &mixup, &err), &err);
    return mixup;
}

/* ---- Draws. ---- */

/* The distribution function, for parameters where it has a closed form. */
static double closed_form(double alpha, double x)
{
    return alpha == 0.5 ? 2 / acos(-1) * asin(sqrt(x))
           : alpha == 1 ? x
           : alpha == 2 ? x * x * (3 - 2 * x)
                        : x * x * x * (10 - 15 * x + 6 * x * x);
}

static void edges_match_the_distribution(void **state)
{
    (void)state;
    static const double alphas[] = {0.5, 1, 2, 3};
    struct beta beta;
    for (int i = 0; i < 4; i++) {
        beta_init(&beta, alphas[i]);
        for (uint32_t k = 0; k < BETA_EDGES; k++) {
            double expected = closed_form(alphas[i], (k + 0.5) / BETA_ONE) * 0x1p32;
            if (fabs(beta.edges[k] - expected) > 1)
                fail_msg("alpha %g: edge %u is %u, not %.2f", alphas[i], k, beta.edges[k],
                         expected);
        }
    }
}

static void a_draw_is_the_number_of_edges_below_its_word(void **state)
{
    (void)state;
    static const double alphas[] = {0.001, 0.1, 0.2, 0.8, 1.3, 20, 100};
    for (int i = 0; i < 7; i++) {
        struct beta beta;
        beta_init(&beta, alphas[i]);
        for (uint32_t k = 0; k < BETA_EDGES; k++) {
            assert_true(k == 0 || beta.edges[k - 1] <= beta.edges[k]);
            assert_true(beta.edges[k] < UINT32_C(1) << 31);
            if (k > 0 && beta.edges[k - 1] == beta.edges[k])
                continue;
            assert_int_equal(beta_draw(&beta, beta.edges[k]) > k, true);
            if (beta.edges[k] > 0)
                assert_int_equal(beta_draw(&beta, beta.edges[k] - 1), k);
        }
        /* the upper half mirrors the lower one */
        for (uint32_t word = 0; word < UINT32_C(1) << 31; word += 77777777)
            assert_int_equal(beta_draw(&beta, word) + beta_draw(&beta, word | UINT32_C(1) << 31),
                             BETA_ONE);
    }
}

static void numpy_draws_the_same_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 200000 };
    static const char *const alphas[] = {"0.1", "0.2", "0.4", "0.8", "1", "4.5", "32"};
    const char *python = test_need_python("numpy");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 32];
    static uint16_t drawn[DRAWS];
    test_make_folder(folder);
    for (int i = 0; i < 7; i++) {
        struct beta beta;
        beta_init(&beta, atof(alphas[i]));
        for (uint64_t k = 0; k < DRAWS; k++)
            drawn[k] = (uint16_t)beta_draw(&beta, philox(1, 2, k).word[0]);
        snprintf(path, sizeof path, "%s/%s", folder, alphas[i]);
        test_write_file(path, drawn, sizeof drawn);
    }
    assert_int_equal(
        test_run("'%s' '%s/tests/image/mixup_numpy.py' '%s'", python, TEST_SOURCE_DIR, folder), 0);
    test_remove_folder(folder);
}

/* ---- Choices. ---- */

enum { SAMPLES = 20000, WIDTH = 97, HEIGHT = 64 };

/* Counts the samples, of SAMPLES, that are mixed in this way. */
static unsigned count_kind(struct mixup_options options, enum mixup_kind kind)
{
    struct mixup *mixup = open_mixup(options);
    unsigned count = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++)
        count += mixup_choose(mixup, WIDTH, HEIGHT, 3, 0, 1, sample).kind == kind;
    mixup_close(mixup);
    return count;
}

static bool is_near(unsigned count, double probability)
{
    return fabs(count - probability * SAMPLES) <=
           4.5 * sqrt(SAMPLES * probability * (1 - probability));
}

static void images_are_mixed_with_the_given_probability(void **state)
{
    (void)state;
    assert_int_equal(count_kind((struct mixup_options){0.8, 0, 1, 0.5}, MIXUP_BLEND), SAMPLES);
    assert_int_equal(count_kind((struct mixup_options){0, 1, 1, 0.5}, MIXUP_PASTE), SAMPLES);
    assert_int_equal(count_kind((struct mixup_options){0, 1, 1, 0}, MIXUP_PASTE), SAMPLES);
    assert_int_equal(count_kind((struct mixup_options){0.8, 1, 0, 0.5}, MIXUP_NONE), SAMPLES);
    assert_int_equal(count_kind((struct mixup_options){0, 0, 1, 0.5}, MIXUP_NONE), SAMPLES);
    assert_int_equal(count_kind((struct mixup_options){0.8, 1, 1, 1}, MIXUP_PASTE), SAMPLES);
    assert_true(is_near(count_kind((struct mixup_options){0.8, 1, 1, 0.3}, MIXUP_PASTE), 0.3));
    assert_true(is_near(count_kind((struct mixup_options){0.8, 1, 0.7, 0.3}, MIXUP_PASTE), 0.21));
    assert_true(is_near(count_kind((struct mixup_options){0.8, 1, 0.7, 0.3}, MIXUP_BLEND), 0.49));
}

/* torchvision.transforms.v2.CutMix: boxes with half sides of floor(side * sqrt(1 - lambda) / 2)
 * around a center, clipped to the picture. */
static void boxes_match_torchvision(void **state)
{
    (void)state;
    struct mixup *mixup = open_mixup((struct mixup_options){0, 0.7, 1, 0.5});
    struct beta beta;
    double mean_part = 0;
    unsigned empty = 0;
    beta_init(&beta, 0.7);
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        struct mixup_choice choice = mixup_choose(mixup, WIDTH, HEIGHT, 3, 1, 2, sample);
        struct philox_block way = philox_sample(3, 1, 2, sample, PHILOX_MIXUP, 0),
                            middle = philox_sample(3, 1, 2, sample, PHILOX_MIXUP, 1);
        double lambda = beta_draw(&beta, way.word[2]) / (double)BETA_ONE,
               ratio = 0.5 * sqrt(1 - lambda);
        int x = (int)((uint64_t)middle.word[0] * WIDTH >> 32),
            y = (int)((uint64_t)middle.word[1] * HEIGHT >> 32);
        int wide = (int)(ratio * WIDTH), high = (int)(ratio * HEIGHT);
        int left = x - wide < 0 ? 0 : x - wide, right = x + wide > WIDTH ? WIDTH : x + wide;
        int top = y - high < 0 ? 0 : y - high, bottom = y + high > HEIGHT ? HEIGHT : y + high;
        assert_int_equal(choice.box.x, left);
        assert_int_equal(choice.box.y, top);
        assert_int_equal(choice.box.width, right - left);
        assert_int_equal(choice.box.height, bottom - top);
        float own = mixup_label_weight(choice, WIDTH, HEIGHT);
        assert_true(own == (float)(1 - (right - left) * (bottom - top) / (double)(WIDTH * HEIGHT)));
        mean_part += own / SAMPLES;
        empty += right == left || bottom == top;
    }
    /* the mean would be one half if boxes were not clipped */
    assert_true(mean_part > 0.6 && mean_part < 0.75);
    assert_true(empty > 0);
    mixup_close(mixup);
}

static void weights_are_draws_in_units_of_1_256(void **state)
{
    (void)state;
    struct mixup *mixup = open_mixup((struct mixup_options){0.2, 0, 1, 0.5});
    struct beta beta;
    double mean = 0;
    beta_init(&beta, 0.2);
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        struct mixup_choice choice = mixup_choose(mixup, WIDTH, HEIGHT, 9, 0, 0, sample);
        uint32_t draw = beta_draw(&beta, philox_sample(9, 0, 0, sample, PHILOX_MIXUP, 0).word[2]);
        assert_int_equal(choice.weight, floor(draw / 16.0 + 0.5));
        assert_true(mixup_label_weight(choice, WIDTH, HEIGHT) == choice.weight / 256.0f);
        mean += mixup_label_weight(choice, WIDTH, HEIGHT) / SAMPLES;
    }
    /* the variance is 1 / (4 (2 alpha + 1)) */
    assert_true(fabs(mean - 0.5) < 4.5 * sqrt(0.25 / 1.4 / SAMPLES));
    mixup_close(mixup);
}

/* ---- Pixels. ---- */

static void all_kernels_blend_to_the_same_bytes(void **state)
{
    (void)state;
    enum { COUNT = 259, GUARD = 0x5a };
    uint8_t own[COUNT + 1], other[COUNT], given[COUNT + 1];
    for (int kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++) {
        if (!image_kernels_supported((enum image_kernels)kernels))
            continue;
        for (uint32_t weight = 0; weight <= BLEND_ONE; weight++)
            for (size_t count = COUNT - weight % 67; count <= COUNT; count += 67) {
                for (uint32_t i = 0; i < COUNT; i++) {
                    own[i] = (uint8_t)(i < 4 ? i / 2 * 255 : philox(weight, 0, i).word[0]);
                    other[i] = (uint8_t)(i < 4 ? i % 2 * 255 : philox(weight, 1, i).word[0]);
                }
                memcpy(given, own, COUNT);
                given[count] = GUARD;
                blend_bytes((enum image_kernels)kernels, given, other, count, weight);
                assert_int_equal(given[count], GUARD);
                for (size_t i = 0; i < count; i++)
                    assert_int_equal(given[i], floor(own[i] * (weight / 256.0) +
                                                     other[i] * (1 - weight / 256.0) + 0.5));
            }
    }
}

static void cutmix_pastes_only_the_box(void **state)
{
    (void)state;
    enum { BYTES = 3 * WIDTH * HEIGHT };
    static const struct image_rect boxes[] = {
        {0, 0, 0, 0}, {5, 7, 0, 9}, {0, 0, WIDTH, HEIGHT}, {90, 60, 7, 4}, {3, 0, 11, 64}};
    uint8_t *own = test_render_rgb(WIDTH, HEIGHT), *other = malloc(BYTES), *mixed = malloc(BYTES);
    assert_true(other && mixed);
    for (size_t i = 0; i < BYTES; i++)
        other[i] = (uint8_t)(own[i] ^ 0x80);
    for (size_t n = 0; n < sizeof boxes / sizeof boxes[0]; n++) {
        struct image_rect box = boxes[n];
        memcpy(mixed, own, BYTES);
        mixup_apply((struct mixup_choice){.kind = MIXUP_PASTE, .box = box}, mixed, other, WIDTH,
                    HEIGHT);
        for (uint32_t i = 0; i < BYTES; i++) {
            uint32_t x = i / 3 % WIDTH, y = i / 3 / WIDTH;
            bool is_inside = x - box.x < box.width && y - box.y < box.height;
            assert_int_equal(mixed[i], (is_inside ? other : own)[i]);
        }
    }
    memcpy(mixed, own, BYTES);
    mixup_apply((struct mixup_choice){.kind = MIXUP_NONE}, mixed, other, WIDTH, HEIGHT);
    assert_memory_equal(mixed, own, BYTES);
    free(own), free(other), free(mixed);
}

static void choices_are_the_same_on_any_machine(void **state)
{
    (void)state;
    struct mixup *mixup = open_mixup((struct mixup_options){0.2, 0.8, 0.9, 0.5});
    uint64_t hash = 0;
    for (uint64_t sample = 0; sample < 5000; sample++) {
        struct mixup_choice choice = mixup_choose(mixup, 224, 160, 5, 0, 1, sample);
        float part = mixup_label_weight(choice, 224, 160);
        hash = hash * 31 + hash_64(&choice, sizeof choice);
        hash = hash * 31 + hash_64(&part, sizeof part);
    }
    struct beta beta;
    beta_init(&beta, 0.37);
    hash = hash * 31 + hash_64(beta.edges, sizeof beta.edges);
    assert_true(hash == UINT64_C(0x2311758795489ac3));
    mixup_close(mixup);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct mixup_options bad[] = {
        {-0.1, 0, 1, 0.5}, {101, 0, 1, 0.5}, {NAN, 0, 1, 0.5},  {INFINITY, 0, 1, 0.5},
        {0, 1e9, 1, 0.5},  {1, 0, 1.1, 0.5}, {1, 0, -0.1, 0.5}, {1, 1, 1, 1.5},
        {1, 1, NAN, 0.5},  {1, 1, 1, -1},    {0, -1, 1, 0.5},
    };
    struct err err;
    struct mixup *mixup;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mixup_open(&bad[i], &mixup, &err), -EINVAL);
        assert_true(err.expected[0] && err.found[0]);
    }
    assert_ok(mixup_options_check(&(struct mixup_options){100, 1e-300, 1, 1}, &err), &err);
    assert_ok(mixup_options_check(&(struct mixup_options){0}, &err), &err);
    mixup_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_match_the_distribution),
        cmocka_unit_test(a_draw_is_the_number_of_edges_below_its_word),
        cmocka_unit_test(numpy_draws_the_same_distribution),
        cmocka_unit_test(images_are_mixed_with_the_given_probability),
        cmocka_unit_test(boxes_match_torchvision),
        cmocka_unit_test(weights_are_draws_in_units_of_1_256),
        cmocka_unit_test(all_kernels_blend_to_the_same_bytes),
        cmocka_unit_test(cutmix_pastes_only_the_box),
        cmocka_unit_test(choices_are_the_same_on_any_machine),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
