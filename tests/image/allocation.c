/*
 * allocation — the pipeline asks for no memory of ours once it has seen its largest image.
 *
 * malloc and its kin are defined here, so that all calls of the process pass by; one is ours where it returns into this
 * program's own text, which holds all of millrace and the test. libjpeg's own calls return into its shared library.
 */
#include "image/pipeline.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <stdlib.h>

#ifndef MR_SANITIZED

extern char __executable_start, etext; /* by the linker */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static size_t ours, others;

static void count_call(const void *caller)
{
    const char *at = caller;
    if (at >= &__executable_start && at < &etext)
        ours++;
    else
        others++;
}

void *malloc(size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

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
        assert_ok(
            image_pipeline_run(pipeline, photos[i].data, photos[i].bytes, "a.jpg", key, rgb, 3 * 64, &err),
            &err);
    }
}

static void the_steady_state_asks_for_no_memory(void **state)
{
    (void)state;
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
    ours = others = 0;
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    run_all(pipeline, photos, rgb);
    assert_true(ours > 0 && others > 0); /* or the count itself is broken */
    ours = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        run_all(pipeline, photos, rgb);
    assert_int_equal(ours, 0);
    image_pipeline_close(pipeline);
    for (unsigned i = 0; i < KINDS; i++)
        free(photos[i].data);
    free(rgb);
}

#else

static void the_steady_state_asks_for_no_memory(void **state)
{
    (void)state;
    test_skip("a sanitizer owns malloc here");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steady_state_asks_for_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
