/*
 * normalize — tests images as models take them (options.image.normalize): they are those of bytes,
 * normalized, whatever decodes them, and count against the memory budget.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 200, WIDTH = 20, HEIGHT = 16, PIXELS = WIDTH * HEIGHT };

static int make_data(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.cut_jpg = 77;
    return fixture_set_up_with_options(state, &options);
}

static struct normalize_options make_normalize(enum image_layout layout, enum dtype dtype,
                                               uint32_t channels)
{
    struct normalize_options normalize = normalize_options_default();
    normalize.layout = layout;
    normalize.dtype = dtype;
    normalize.channels = channels;
    if (dtype != DTYPE_U8) {
        memcpy(normalize.mean, (const double[]){0.485, 0.456, 0.406}, sizeof normalize.mean);
        memcpy(normalize.std, (const double[]){0.229, 0.224, 0.225}, sizeof normalize.std);
    }
    return normalize;
}

/* Compares the images with normalized ones of a plain loader, and other fields with its own. */
static void check_batch(const struct batch *batch, const struct batch *plain,
                        const struct normalize *normalize)
{
    const struct normalize_options *options = &normalize->options;
    const struct batch_field *image = batch_field_named(batch, "image"),
                             *rgb = batch_field_named(plain, "image");
    const uint64_t channels = options->channels;
    static _Alignas(8) uint8_t wanted[PIXELS * 3 * 4];
    bool is_planar = options->layout == IMAGE_LAYOUT_CHW;
    assert_int_equal(image->dtype, options->dtype);
    assert_int_equal(image->rank, 4);
    assert_int_equal(image->shape[0], batch->items_count);
    assert_int_equal(image->shape[1], is_planar ? channels : HEIGHT);
    assert_int_equal(image->shape[2], is_planar ? HEIGHT : WIDTH);
    assert_int_equal(image->shape[3], is_planar ? WIDTH : channels);
    assert_int_equal(image->stride_bytes[0], PIXELS * channels * dtype_bytes(options->dtype));
    assert_int_equal(batch->items_count, plain->items_count);
    for (uint32_t i = 0; i < batch->items_count; i++) {
        assert_int_equal(batch->items[i].ref.sample, plain->items[i].ref.sample);
        assert_int_equal(batch->items[i].skipped, plain->items[i].skipped);
        if (batch->items[i].skipped)
            continue;
        normalize_apply(normalize, (const uint8_t *)rgb->data + i * rgb->stride_bytes[0], PIXELS,
                        wanted);
        assert_memory_equal((const uint8_t *)image->data + i * image->stride_bytes[0], wanted,
                            (size_t)image->stride_bytes[0]);
        assert_int_equal(batch->fields_count, plain->fields_count);
        for (uint32_t f = 1; f < batch->fields_count; f++) {
            const struct batch_field *field = &batch->fields[f];
            int64_t at = i * field->stride_bytes[0];
            assert_memory_equal((const uint8_t *)field->data + at,
                                (const uint8_t *)plain->fields[f].data + at,
                                (size_t)field->stride_bytes[0]);
        }
    }
}

/* Random crops, flips and augmentations, with a bad sample and padding. */
static void images_are_those_of_bytes_normalized(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_U8, DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (uint32_t number = 0; number < 16; number++) {
        struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
        const struct batch *batches[2];
        struct loader *loaders[2];
        struct normalize normalize;
        struct err err;
        int status;
        options.image.augment.randaugment_ops = number % 3;
        options.image.augment.randaugment_magnitude = 9;
        options.bad_policy = number % 2 ? LOADER_BAD_SKIP : LOADER_BAD_SUBSTITUTE;
        options.pad_last = number % 3 == 1;
        assert_ok(loader_open(&options, &loaders[0], &err), &err);
        options.image.normalize =
            make_normalize(number / 4 % 2 ? IMAGE_LAYOUT_CHW : IMAGE_LAYOUT_HWC, dtypes[number % 4],
                           number / 8 ? 1 : 3);
        options.workers = 1 + number % 3;
        assert_ok(loader_open(&options, &loaders[1], &err), &err);
        normalize_init(&normalize, &options.image.normalize);
        while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
            assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
            check_batch(batches[1], batches[0], &normalize);
            for (int i = 0; i < 2; i++)
                loader_release(loaders[i], batches[i]);
        }
        assert_ok(status, &err);
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_END);
        assert_int_equal(loader_stats(loaders[1]).bad_samples_count, 1);
        for (int i = 0; i < 2; i++)
            loader_close(loaders[i]);
    }
}

/* Two micro-batches of 8 images of 256 x 256 take 3 MiB as bytes and 12 MiB as floats. */
static void values_count_against_the_memory(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery delivered;
    struct loader *loader;
    struct err err;
    options.image.width = options.image.height = 256;
    options.batching = (struct batching){.global = 8, .micro = 8, .ranks = 1};
    options.memory_bytes = 10 << 20;
    consume_all(&options, &delivered, NULL, NULL);
    delivery_free(&delivered);
    options.image.normalize = make_normalize(IMAGE_LAYOUT_CHW, DTYPE_F32, 3);
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.what, "memory budget is too small"));
    options.image.normalize.channels = 1;
    consume_all(&options, &delivered, NULL, NULL);
    delivery_free(&delivered);
}

static void wrong_options_are_refused(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery delivered;
    struct loader *loader;
    struct err err;
    options.image.normalize = make_normalize(IMAGE_LAYOUT_CHW, DTYPE_U8, 3);
    options.image.mixup.cutmix_alpha = 1;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.what, "mixup and cutmix mix images of U8"));
    options.image.mixup.cutmix_alpha = 0;
    options.image.normalize.std[1] = 0.5;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.what, "bytes cannot be normalized"));
    options.decode = LOADER_BYTES; /* has no images */
    options.bad_policy = LOADER_BAD_SKIP;
    consume_all(&options, &delivered, NULL, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    delivery_free(&delivered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_those_of_bytes_normalized),
        cmocka_unit_test(values_count_against_the_memory),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, make_data, fixture_tear_down);
}
