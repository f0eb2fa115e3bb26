/*
 * patches — tests the conversion of images to rows of patches on the device: floats are
 * bit-identical to the CPU ops'; other types are those values rounded.
 */
#include "trainer/ops/cuda/patches.h"
#include "base/philox.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"
#include "trainer/ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

static const float MEAN[] = {0.485f, 0.456f, 0.406f}, DEVIATION[] = {0.229f, 0.224f, 0.225f};

static size_t count_of(const struct cuda_images *s)
{
    return s->items * s->side * s->side * 3;
}

static uint8_t *random_images(const struct cuda_images *s)
{
    uint8_t *images = malloc(count_of(s));
    assert_non_null(images);
    for (size_t i = 0; i < count_of(s); i++)
        images[i] = (uint8_t)philox(1, 0, i).word[0];
    return images;
}

static double *patches_on_cpu(const struct cuda_images *s, const uint8_t *images)
{
    float *out = malloc(count_of(s) * sizeof *out);
    double *values = malloc(count_of(s) * sizeof *values);
    assert_non_null(out);
    assert_non_null(values);
    struct ops *ops;
    struct err err;
    assert_ok(ops_cpu_open(NULL, DTYPE_F32, 1, &ops, &err), &err);
    ops->table->patches(ops, out, images, s->items, s->side, s->patch, s->mean, s->deviation);
    assert_ok(ops->table->sync(ops, &err), &err);
    ops_close(ops);
    for (size_t i = 0; i < count_of(s); i++)
        values[i] = out[i];
    free(out);
    return values;
}

static double *patches_on_device(enum dtype dtype, const struct cuda_images *s,
                                 const uint8_t *images)
{
    void *out = cuda_case_blank(dtype, count_of(s)), *pixels = cuda_case_bytes(images, count_of(s));
    cuda_ok(cuda_patches(dtype, s, out, pixels, NULL));
    double *found = cuda_case_read(dtype, out, count_of(s));
    cuda_case_free(out), cuda_case_free(pixels);
    return found;
}

static void check_patches(const struct cuda_images *s, const uint8_t *images)
{
    double *expected = patches_on_cpu(s, images);
    for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
        for (size_t order = 0; order < order_count(); order++) {
            order_set(order);
            double *found = patches_on_device(DTYPES[dtype], s, images);
            for (size_t i = 0; i < count_of(s); i++)
                if (found[i] != cuda_case_round(DTYPES[dtype], expected[i]))
                    fail_msg("side %d, patch %d, %s: value %zu is %.9g, not %.9g", (int)s->side,
                             (int)s->patch, dtype_name(DTYPES[dtype]), i, found[i],
                             cuda_case_round(DTYPES[dtype], expected[i]));
            free(found);
        }
    }
    order_set(0);
    free(expected);
}

/* Patch lines with and without 16-byte alignment, patches aligned only as a whole, and more than
 * one block. */
static void patches_match_the_cpu(void **state)
{
    (void)state;
    static const uint64_t sizes[][3] = {{1, 1, 1}, {2, 6, 3},   {3, 28, 14}, {2, 8, 4},
                                        {5, 8, 8}, {1, 32, 16}, {1, 9, 9},   {2, 12, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct cuda_images s = {sizes[i][0], sizes[i][1], sizes[i][2], MEAN, DEVIATION};
        uint8_t *images = random_images(&s);
        check_patches(&s, images);
        free(images);
    }
}

/* All 256 values in each color channel, with various means and deviations. */
static void every_value_is_normalized_as_on_the_cpu(void **state)
{
    (void)state;
    static const float kinds[][6] = {{0, 0, 0, 1, 1, 1},
                                     {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f},
                                     {0.1307f, 0.2860f, 0.4914f, 0.3081f, 0.3530f, 0.2471f},
                                     {-3.7f, 100.0f, 1e-6f, 1e-3f, 1234.5f, 0x1.fffffcp-3f}};
    uint8_t images[256 * 3];
    for (int i = 0; i < 256; i++)
        memset(images + 3 * i, i, 3);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        check_patches(&(struct cuda_images){1, 16, 8, kinds[i], kinds[i] + 3}, images);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    assert_int_equal(
        cuda_patches(DTYPE_F64, &(struct cuda_images){1, 2, 1, MEAN, DEVIATION}, NULL, NULL, NULL),
        cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_match_the_cpu),
        cmocka_unit_test(every_value_is_normalized_as_on_the_cpu),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
