/*
 * allocation — neither the pipeline nor libjpeg allocates memory after the largest image.
 */
#include "image/pipeline/pipeline.h"

#include "tests/image/fixtures.h"
#include "tests/support/allocations.h"
#include "tests/support/test.h"

#include <stdlib.h>

enum { KINDS = 12 };

struct photo {
    unsigned char *data;
    size_t bytes;
};

static void run_all(struct image_pipeline *pipeline, const struct photo *photos, uint8_t *rgb)
{
    struct err err;
    for (uint64_t i = 0; i < KINDS; i++) {
        struct image_key key = {1, 0, 0, i};
        assert_ok(image_pipeline_run(pipeline, photos[i].data, photos[i].bytes, "a.jpg", key, rgb,
                                     3 * 64, &err),
                  &err);
    }
}

static void the_steady_state_allocates_nothing(void **state)
{
    (void)state;
    size_t ours = allocations_own_count(), others = allocations_others();
    struct err err;
    struct photo photos[KINDS];
    struct image_pipeline *pipeline;
    struct image_options options = {64, 64, crop_options_default(CROP_RANDOM)};
    uint8_t *rgb = malloc(3 * 64 * 64);
    assert_non_null(rgb);
    for (unsigned i = 0; i < KINDS; i++) {
        size_t bytes;
        unsigned char *plain = test_render_jpeg(50 + 61 * i % 300, 40 + 97 * i % 400, 80, &bytes);
        photos[i].data = test_add_orientation(plain, bytes, i % 8 + 1, &photos[i].bytes);
        free(plain);
    }
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    run_all(pipeline, photos, rgb);
    /* otherwise the count is broken */
    assert_true(allocations_own_count() > ours && allocations_others() > others);
    ours = allocations_own_count();
    others = allocations_others();
    for (int epoch = 0; epoch < 3; epoch++)
        run_all(pipeline, photos, rgb);
    assert_int_equal(allocations_own_count(), ours);
    assert_int_equal(allocations_others(), others);
    image_pipeline_close(pipeline);
    for (unsigned i = 0; i < KINDS; i++)
        free(photos[i].data);
    free(rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
