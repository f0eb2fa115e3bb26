/*
 * images — tests image fields: those that follow another image, and those with a size and crop of
 * their own.
 */
#include "base/str.h"
#include "image/jpeg/jpeg.h"
#include "shards/format/npy.h"
#include "shards/format/shard.h"
#include "tests/loader/fixture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 60, WIDTH = 24, HEIGHT = 20, VIEW_SIDE = 28 };

struct size {
    uint32_t width, height;
};

static struct size size_of(uint64_t s)
{
    return (struct size){30 + (uint32_t)(s * 7 % 50), 26 + (uint32_t)(s * 11 % 40)};
}

static void add_ppm(struct shard_writer *writer, const char *extension, struct size size,
                    const uint8_t *rgb, bool has_rows)
{
    struct str file = {0};
    struct err err;
    str_add_format(&file, "P6\n%u %u\n255\n", size.width, size.height);
    struct shard_raw_image picture = {.width = size.width, .pixels_offset = (uint32_t)file.bytes};
    str_add(&file, rgb, 3 * (size_t)size.width * size.height);
    assert_ok(has_rows ? shard_writer_add_raw_image(writer, extension, file.data, file.bytes,
                                                    picture, &err)
                       : shard_writer_add_field(writer, extension, file.data, file.bytes, &err),
              &err);
    str_deinit(&file);
}

static void add_jpg(struct shard_writer *writer, const char *extension, struct size size,
                    const uint8_t *rgb, uint64_t s)
{
    struct str file = {0};
    struct err err;
    assert_ok(
        jpeg_encode(rgb, size.width, size.height, 3 * (size_t)size.width, 90, s % 2, &file, &err),
        &err);
    assert_ok(shard_writer_add_field(writer, extension, file.data, file.bytes, &err), &err);
    str_deinit(&file);
}

static void add_mask(struct shard_writer *writer, const char *extension, struct size size,
                     const uint8_t *mask)
{
    uint8_t header[NPY_ARRAY_HEADER_BYTES];
    struct str file = {0};
    struct err err;
    npy_encode_array_header(DTYPE_U8, 2, (int64_t[]){size.height, size.width}, header);
    str_add(&file, header, sizeof header);
    str_add(&file, mask, (size_t)size.width * size.height);
    assert_ok(shard_writer_add_field(writer, extension, file.data, file.bytes, &err), &err);
    str_deinit(&file);
}

/* Blocks of 8 x 8 pixels, black or white, and the class 1 where they are white. */
static void draw_blocks(struct size size, uint64_t s, uint8_t *rgb, uint8_t *mask)
{
    for (uint32_t y = 0; y < size.height; y++)
        for (uint32_t x = 0; x < size.width; x++) {
            size_t at = (size_t)y * size.width + x;
            mask[at] = (x / 8 * 5 + y / 8 * 3 + s) % 4 < 2;
            memset(rgb + 3 * at, mask[at] ? 255 : 0, 3);
        }
}

static void draw_noise(struct size size, uint64_t s, uint8_t *rgb)
{
    uint32_t random = (uint32_t)s + 1;
    for (size_t i = 0; i < 3 * (size_t)size.width * size.height; i++) {
        random = random * 1664525 + 1013904223;
        rgb[i] = (uint8_t)(random >> 24);
    }
}

/* ppm, whose rows the index lists, and copy.ppm have the same noise, and so have jpg and copy.jpg.
 * white.ppm is white, and ones.npy has the class 1, both as large. view.ppm and view.npy have
 * blocks of another size. wrong, broken: the sample whose copy.ppm has another size, whose view.ppm
 * is cut; -1: none. */
static void add_sample(struct shard_writer *writer, uint64_t s, int64_t wrong, int64_t broken)
{
    enum { SIDE_MAX = 128 };
    static uint8_t noise[3 * SIDE_MAX * SIDE_MAX], blocks[3 * SIDE_MAX * SIDE_MAX],
        white[3 * SIDE_MAX * SIDE_MAX], mask[SIDE_MAX * SIDE_MAX], ones[SIDE_MAX * SIDE_MAX];
    const struct size size = size_of(s), view = {size.height + 9, size.width + 3},
                      copy = {size.width, size.height - ((int64_t)s == wrong)};
    char key[16];
    struct err err;
    assert_in_range(view.width, 1, SIDE_MAX);
    assert_in_range(view.height, 1, SIDE_MAX);
    draw_noise(size, s, noise);
    draw_blocks(view, s, blocks, mask);
    memset(white, 255, sizeof white);
    memset(ones, 1, sizeof ones);
    snprintf(key, sizeof key, "k%03d", (int)s);
    assert_ok(shard_writer_begin_sample(writer, key, &err), &err);
    add_jpg(writer, "copy.jpg", size, noise, s);
    add_ppm(writer, "copy.ppm", copy, noise, false);
    add_jpg(writer, "jpg", size, noise, s);
    add_mask(writer, "ones.npy", size, ones);
    add_ppm(writer, "ppm", size, noise, true);
    add_mask(writer, "view.npy", view, mask);
    if ((int64_t)s == broken)
        assert_ok(shard_writer_add_field(writer, "view.ppm", "P6 9 9 255\n", 11, &err), &err);
    else
        add_ppm(writer, "view.ppm", view, blocks, false);
    add_ppm(writer, "white.ppm", size, white, false);
}

static void make(struct fixture *fixture, int64_t wrong, int64_t broken)
{
    struct shard_writer *writer = fixture_begin_tar(fixture, SAMPLES);
    for (uint64_t s = 0; s < SAMPLES; s++)
        add_sample(writer, s, wrong, broken);
    fixture_end_tar(writer);
}

static int set_up(void **state)
{
    struct fixture *fixture = malloc(sizeof *fixture);
    assert_non_null(fixture);
    make(fixture, -1, -1);
    *state = fixture;
    return 0;
}

static struct loader_options images_options(const struct fixture *fixture, char *path,
                                            const struct loader_field *fields, uint32_t count)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    snprintf(path, TEST_PATH_BYTES_MAX + 16, "%s/a.tar", fixture->folder);
    options.dataset = path;
    options.image.field = "ppm";
    options.image.width = WIDTH;
    options.image.height = HEIGHT;
    options.fields = fields;
    options.fields_count = count;
    options.bad_policy = LOADER_BAD_STOP;
    options.epochs_max = 2;
    return options;
}

static struct loader_field follower(const char *name, const char *from)
{
    return (struct loader_field){
        .name = name, .from = from, .decode = LOADER_FIELD_IMAGE, .follows = "image"};
}

static struct loader_field image_of_its_own(const char *name, const char *from, uint32_t width,
                                            uint32_t height)
{
    struct loader_field field = {.name = name, .from = from, .decode = LOADER_FIELD_IMAGE};
    field.image.width = width;
    field.image.height = height;
    field.image.crop = crop_options_default(CROP_RANDOM);
    return field;
}

static const uint8_t *item_of(const struct batch_field *field, uint32_t i)
{
    return (const uint8_t *)field->data + i * field->stride_bytes[0];
}

static void check_shape(const struct batch *batch, const char *name, uint32_t width,
                        uint32_t height)
{
    const struct batch_field *field = batch_field_named(batch, name);
    assert_non_null(field);
    assert_int_equal(field->dtype, DTYPE_U8);
    assert_int_equal(field->rank, 4);
    assert_int_equal(field->shape[0], batch->items_count);
    assert_int_equal(field->shape[1], height);
    assert_int_equal(field->shape[2], width);
    assert_int_equal(field->shape[3], 3);
    assert_null(field->offsets);
}

/* ---- Followers. ---- */

/* Of the same file, whatever the crop; that the shard's index lists the rows of "ppm" makes no
 * difference. */
static void a_follower_of_the_same_pixels_is_the_image(void **state)
{
    static const enum crop_kind crops[] = {CROP_NONE, CROP_CENTER, CROP_RANDOM};
    static const char *const extensions[] = {"ppm", "jpg"};
    for (int i = 0; i < 12; i++) {
        const struct loader_field fields[] = {follower("same", i % 2 ? "copy.jpg" : "copy.ppm")};
        char path[TEST_PATH_BYTES_MAX + 16];
        struct loader_options options = images_options(*state, path, fields, 1);
        const struct batch *batch;
        struct loader *loader;
        struct err err;
        uint64_t items = 0;
        int status;
        options.image.field = extensions[i % 2];
        options.image.crop = crop_options_default(crops[i / 2 % 3]);
        options.image.crop.flip = i >= 6;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            const struct batch_field *image = batch_field_named(batch, "image"),
                                     *same = batch_field_named(batch, "same");
            check_shape(batch, "same", WIDTH, HEIGHT);
            assert_memory_equal(same->data, image->data,
                                (size_t)image->stride_bytes[0] * batch->items_count);
            items += batch->items_count;
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        assert_int_equal(items, 2 * SAMPLES);
        loader_close(loader);
    }
}

/* A white picture is white where a mask of ones is 1, and black where the image was moved away.
 * The image's own colors do not change with followers, nor with its jitter those of followers. */
static void followers_are_moved_but_keep_their_colors(void **state)
{
    const struct loader_field fields[] = {
        follower("white", "white.ppm"),
        {.name = "ones",
         .from = "ones.npy",
         .decode = LOADER_FIELD_LABELS,
         .dtype = DTYPE_U8,
         .follows = "image"},
    };
    char path[TEST_PATH_BYTES_MAX + 16];
    struct loader_options options = images_options(*state, path, fields, 2);
    const struct batch *batches[2];
    struct loader *loaders[2];
    struct err err;
    uint64_t black = 0, white = 0;
    int status;
    options.image.augment = (struct augment_options){.randaugment_ops = 3,
                                                     .randaugment_magnitude = 20,
                                                     .brightness = 0.5,
                                                     .contrast = 0.5,
                                                     .saturation = 0.5,
                                                     .hue = 0.2};
    assert_ok(loader_open(&options, &loaders[0], &err), &err);
    options.fields_count = 0;
    assert_ok(loader_open(&options, &loaders[1], &err), &err);
    while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
        const struct batch_field *rgb = batch_field_named(batches[0], "white"),
                                 *ones = batch_field_named(batches[0], "ones"),
                                 *image = batch_field_named(batches[0], "image"),
                                 *alone = batch_field_named(batches[1], "image");
        assert_memory_equal(image->data, alone->data,
                            (size_t)image->stride_bytes[0] * batches[0]->items_count);
        for (size_t i = 0; i < (size_t)WIDTH * HEIGHT * batches[0]->items_count; i++) {
            uint8_t one = ((const uint8_t *)ones->data)[i];
            for (size_t c = 0; c < 3; c++)
                assert_int_equal(((const uint8_t *)rgb->data)[3 * i + c], one ? 255 : 0);
            black += !one;
            white += one;
        }
        for (int i = 0; i < 2; i++)
            loader_release(loaders[i], batches[i]);
    }
    assert_ok(status, &err);
    assert_true(black > 0 && white > black);
    for (int i = 0; i < 2; i++)
        loader_close(loaders[i]);
}

/* ---- Sizes and crops of their own. ---- */

/* Copies a field of all items of all epochs to where their sample and epoch put them. */
static uint8_t *collect(const struct loader_options *options, const char *name,
                        size_t *ret_item_bytes)
{
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint8_t *all = NULL;
    uint64_t items = 0;
    int status;
    struct loader_options opened = *options;
    for (opened.batching.rank = 0; opened.batching.rank < opened.batching.ranks;
         opened.batching.rank++) {
        assert_ok(loader_open(&opened, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            const struct batch_field *field = batch_field_named(batch, name);
            assert_non_null(field);
            *ret_item_bytes = (size_t)field->stride_bytes[0];
            if (!all)
                all = calloc(options->epochs_max * SAMPLES, *ret_item_bytes);
            assert_non_null(all);
            for (uint32_t i = 0; i < batch->items_count; i++) {
                const struct sample_ref ref = batch->items[i].ref;
                memcpy(all + (ref.epoch * SAMPLES + ref.sample) * *ret_item_bytes,
                       item_of(field, i), *ret_item_bytes);
            }
            items += batch->items_count;
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        loader_close(loader);
    }
    assert_int_equal(items, options->epochs_max * SAMPLES);
    return all;
}

/* Counts the samples of which both have the same bytes. */
static uint64_t count_equal(const uint8_t *a, const uint8_t *b, uint64_t items, size_t item_bytes)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < items; i++)
        count += memcmp(a + i * item_bytes, b + i * item_bytes, item_bytes) == 0;
    return count;
}

/* Images of fields are normalized like "image", whatever their geometry and augmentation. */
static void fields_are_normalized_pixel_by_pixel(void **state)
{
    static const struct normalize_options cases[] = {
        {.layout = IMAGE_LAYOUT_CHW, .dtype = DTYPE_U8, .channels = 3, .std = {1, 1, 1}},
        {.dtype = DTYPE_U8, .channels = 1, .std = {1, 1, 1}},
        {.layout = IMAGE_LAYOUT_CHW,
         .dtype = DTYPE_F32,
         .channels = 3,
         .mean = {0.485, 0.456, 0.406},
         .std = {0.229, 0.224, 0.225}},
        {.dtype = DTYPE_F16, .channels = 1, .mean = {0.5}, .std = {0.25}},
        {.dtype = DTYPE_BF16, .channels = 3, .std = {1, 1, 1}}};
    struct loader_field fields[] = {
        image_of_its_own("view", "view.ppm", VIEW_SIDE, 17),
        {.name = "beside", .from = "copy.jpg", .decode = LOADER_FIELD_IMAGE, .follows = "image"}};
    const size_t pixels[] = {VIEW_SIDE * 17, WIDTH * HEIGHT};
    fields[0].image.augment =
        (struct augment_options){.randaugment_ops = 2, .randaugment_magnitude = 9, .hue = 0.1};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int f = 0; f < 2; f++) {
            char path[TEST_PATH_BYTES_MAX + 16];
            struct loader_options options = images_options(*state, path, fields, 2);
            size_t rgb_bytes, bytes;
            fields[f].normalize = (struct normalize_options){0};
            uint8_t *rgb = collect(&options, fields[f].name, &rgb_bytes);
            fields[f].normalize = cases[c];
            uint8_t *values = collect(&options, fields[f].name, &bytes);
            fields[f].normalize = (struct normalize_options){0};
            struct normalize normalize;
            normalize_init(&normalize, &cases[c]);
            uint8_t *expected = malloc(bytes);
            assert_non_null(expected);
            assert_int_equal(rgb_bytes, 3 * pixels[f]);
            assert_int_equal(bytes, pixels[f] * cases[c].channels * dtype_bytes(cases[c].dtype));
            for (uint64_t i = 0; i < options.epochs_max * SAMPLES; i++) {
                normalize_apply(&normalize, rgb + i * rgb_bytes, pixels[f], expected);
                assert_memory_equal(values + i * bytes, expected, bytes);
            }
            free(expected);
            free(values);
            free(rgb);
        }
}

/* Colors and moves of its own; what follows it gets the moves. */
static void a_field_may_be_augmented(void **state)
{
    struct loader_field fields[] = {image_of_its_own("white", "white.ppm", VIEW_SIDE, 17),
                                    {.name = "ones",
                                     .from = "ones.npy",
                                     .decode = LOADER_FIELD_LABELS,
                                     .dtype = DTYPE_U8,
                                     .follows = "white"}};
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t rgb_bytes, bytes;
    uint64_t moved = 0;
    struct loader_options options = images_options(*state, path, fields, 2);
    fields[0].image.augment =
        (struct augment_options){.randaugment_ops = 1, .randaugment_magnitude = 20};
    uint8_t *rgb = collect(&options, "white", &rgb_bytes),
            *ones = collect(&options, "ones", &bytes);
    for (uint64_t i = 0; i < options.epochs_max * SAMPLES * bytes; i++) {
        if (ones[i])
            continue;
        for (int c = 0; c < 3; c++)
            assert_int_equal(rgb[3 * i + (uint64_t)c], 0);
        moved++;
    }
    assert_true(moved > 0);
    free(ones);
    free(rgb);
}

/* Its bytes are the same alone in a record, and among other fields with other augmentations, ranks,
 * workers and less memory. */
static void the_other_fields_ranks_and_workers_do_not_matter(void **state)
{
    struct loader_field fields[] = {follower("same", "copy.ppm"),
                                    image_of_its_own("other", "copy.ppm", WIDTH, HEIGHT),
                                    {.name = "text", .from = "copy.jpg"},
                                    image_of_its_own("view", "view.ppm", VIEW_SIDE, 17)};
    fields[1].normalize = (struct normalize_options){
        .layout = IMAGE_LAYOUT_CHW, .dtype = DTYPE_F32, .channels = 3, .std = {1, 1, 1}};
    fields[3].normalize =
        (struct normalize_options){.dtype = DTYPE_F16, .channels = 1, .mean = {0.5}, .std = {0.25}};
    fields[3].image.augment =
        (struct augment_options){.randaugment_ops = 2, .randaugment_magnitude = 9, .contrast = 0.5};
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t bytes;
    struct loader_options options = images_options(*state, path, &fields[3], 1);
    options.decode = LOADER_RECORD;
    uint8_t *alone = collect(&options, "view", &bytes);
    assert_int_equal(bytes, VIEW_SIDE * 17 * sizeof(uint16_t));
    for (uint64_t ranks = 1; ranks <= 3; ranks++) {
        options = images_options(*state, path, fields, 4);
        options.batching.ranks = ranks;
        options.workers = (unsigned)ranks;
        options.memory_bytes = ranks == 2 ? 16 << 20 : 64 << 20;
        options.image.augment.randaugment_ops = ranks == 3 ? 2 : 0;
        options.image.augment.randaugment_magnitude = 9;
        uint8_t *view = collect(&options, "view", &bytes);
        assert_int_equal(count_equal(view, alone, 2 * SAMPLES, bytes), 2 * SAMPLES);
        free(view);
    }
    free(alone);
}

/* The choices for a field depend on its name, the seed, the epoch and the sample. */
static void each_image_has_choices_of_its_own(void **state)
{
    const struct loader_field fields[] = {image_of_its_own("a", "copy.ppm", WIDTH, HEIGHT),
                                          image_of_its_own("b", "copy.ppm", WIDTH, HEIGHT)};
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t bytes;
    struct loader_options options = images_options(*state, path, fields, 2);
    uint8_t *image = collect(&options, "image", &bytes), *a = collect(&options, "a", &bytes),
            *b = collect(&options, "b", &bytes);
    options.seed++;
    uint8_t *reseeded = collect(&options, "a", &bytes);
    assert_true(count_equal(a, image, 2 * SAMPLES, bytes) <= 2);
    assert_true(count_equal(a, b, 2 * SAMPLES, bytes) <= 2);
    assert_true(count_equal(a, reseeded, 2 * SAMPLES, bytes) <= 2);
    assert_true(count_equal(a, a + SAMPLES * bytes, SAMPLES, bytes) <= 1); /* both epochs */
    free(image);
    free(a);
    free(b);
    free(reseeded);
}

/* As docs/reference/images.md specifies: those of "image" with the seed xor XXH3 of the name. */
static void the_choices_are_those_of_another_seed(void **state)
{
    const uint64_t xxh3_of_a = 0xe6c632b61e964e1f;
    struct loader_field field = image_of_its_own("a", "copy.ppm", WIDTH, HEIGHT);
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t bytes;
    field.image.augment = (struct augment_options){.randaugment_ops = 2,
                                                   .randaugment_magnitude = 9,
                                                   .brightness = 0.4,
                                                   .contrast = 0.3,
                                                   .saturation = 0.2,
                                                   .hue = 0.1};
    struct loader_options options = images_options(*state, path, &field, 1);
    options.image.augment = field.image.augment;
    uint8_t *a = collect(&options, "a", &bytes);
    options.seed ^= xxh3_of_a;
    uint8_t *image = collect(&options, "image", &bytes);
    assert_int_equal(count_equal(a, image, 2 * SAMPLES, bytes), 2 * SAMPLES);
    free(a);
    free(image);
}

/* Without a random choice, an image of its own is what "image" would be. */
static void a_center_crop_is_that_of_the_image(void **state)
{
    struct loader_field field = image_of_its_own("view", "copy.jpg", WIDTH, HEIGHT);
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t bytes;
    field.image.crop = crop_options_default(CROP_CENTER);
    field.image.crop.center_fraction = 0.75;
    struct loader_options options = images_options(*state, path, &field, 1);
    options.image.field = "jpg";
    options.image.crop = field.image.crop;
    uint8_t *image = collect(&options, "image", &bytes), *view = collect(&options, "view", &bytes);
    assert_int_equal(count_equal(image, view, 2 * SAMPLES, bytes), 2 * SAMPLES);
    free(image);
    free(view);
}

/* Also in a record, where a field may have the name "image", and whatever the order of fields. */
static void masks_and_images_follow_a_field(void **state)
{
    struct loader_field fields[] = {{.name = "mask",
                                     .from = "view.npy",
                                     .decode = LOADER_FIELD_LABELS,
                                     .dtype = DTYPE_U16,
                                     .follows = "image"},
                                    follower("same", "view.ppm"),
                                    image_of_its_own("image", "view.ppm", VIEW_SIDE, 17)};
    char path[TEST_PATH_BYTES_MAX + 16];
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint64_t ones = 0, zeros = 0;
    int status;
    struct loader_options options = images_options(*state, path, fields, 3);
    options.decode = LOADER_RECORD;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_shape(loader).pixels_version, 1);
    assert_non_null(strstr(loader_shape(loader).pixels_libraries, "libwebp"));
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        const struct batch_field *mask = batch_field_named(batch, "mask"),
                                 *image = batch_field_named(batch, "image");
        const uint8_t *rgb = image->data;
        assert_int_equal(mask->shape[1], 17);
        assert_int_equal(mask->shape[2], VIEW_SIDE);
        check_shape(batch, "image", VIEW_SIDE, 17);
        check_shape(batch, "same", VIEW_SIDE, 17);
        assert_memory_equal(batch_field_named(batch, "same")->data, rgb,
                            (size_t)image->stride_bytes[0] * batch->items_count);
        for (size_t i = 0; i < (size_t)VIEW_SIDE * 17 * batch->items_count; i++) {
            uint16_t class = ((const uint16_t *)mask->data)[i];
            if (rgb[3 * i] == 0 || rgb[3 * i] == 255)
                assert_int_equal(class, rgb[3 * i] == 255);
            ones += rgb[3 * i] == 255;
            zeros += rgb[3 * i] == 0;
        }
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    assert_true(ones > 1000 && zeros > 1000);
    loader_close(loader);
}

/* ---- Errors and limits. ---- */

/* Whether an offset in the shard is in a field of sample 22. */
static void check_is_inside(const struct fixture *fixture, const char *path, const char *extension,
                            int64_t offset)
{
    struct shard *shard;
    struct shard_field field;
    struct err err;
    assert_ok(shard_open(fixture->io, path, &shard, &err), &err);
    int number = shard_index_find(shard->index, extension);
    assert_true(number >= 0);
    shard_index_field(shard->index, 22, (uint32_t)number, &field);
    assert_in_range(offset, field.data_offset, field.data_offset + field.size_bytes);
    shard_close(shard);
}

static void bad_images_are_named_and_replaced(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "field \"copy.ppm\": the PPM has another size than the image that it follows",
        "field \"view.ppm\": "};
    const struct loader_field fields[] = {follower("same", "copy.ppm"),
                                          image_of_its_own("view", "view.ppm", VIEW_SIDE, 17)};
    for (int i = 0; i < 2; i++) {
        struct fixture fixture;
        struct loader_stats stats;
        struct delivery delivered;
        struct err err;
        char path[TEST_PATH_BYTES_MAX + 16];
        make(&fixture, i == 0 ? 22 : -1, i == 1 ? 22 : -1);
        struct loader_options options = images_options(&fixture, path, fields, 2);
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, "sample \"k022\" cannot be used"));
        assert_non_null(strstr(err.what, texts[i]));
        check_is_inside(&fixture, path, i == 0 ? "copy.ppm" : "view.ppm", err.offset);
        options.bad_fraction_max = 1;
        for (int policy = LOADER_BAD_SUBSTITUTE; policy <= LOADER_BAD_SKIP; policy++) {
            options.bad_policy = (enum loader_bad_policy)policy;
            consume_all(&options, &delivered, &stats, NULL);
            assert_int_equal(delivered.items, 2 * SAMPLES);
            assert_int_equal(stats.bad_samples_count, 2); /* in two epochs */
            delivery_free(&delivered);
        }
        fixture_remove(&fixture);
    }
}

/* The least memory has room for two micro-batches of each image, and for a decoder of each with a
 * size of its own. */
static void images_count_against_the_memory(void **state)
{
    enum { BATCHES_BYTES = 2 * 8 * 256 * 256 * 3, DECODER_BYTES = 2 << 20, LISTS_BYTES = 1 << 16 };
    const struct loader_field fields[] = {follower("same", "copy.ppm"),
                                          image_of_its_own("view", "view.ppm", 256, 256)};
    char path[TEST_PATH_BYTES_MAX + 16];
    uint64_t least[3];
    for (uint32_t count = 0; count <= 2; count++) {
        struct loader_options options = images_options(*state, path, fields, count);
        struct delivery delivered;
        options.image.width = options.image.height = 256;
        options.batching = (struct batching){.global = 8, .micro = 8, .ranks = 1};
        options.workers = 1;
        options.memory_bytes = least[count] = fixture_memory_for_long_reads(&options, 0);
        consume_all(&options, &delivered, NULL, NULL);
        assert_int_equal(delivered.items, 2 * SAMPLES);
        delivery_free(&delivered);
    }
    assert_in_range(least[1] - least[0], BATCHES_BYTES, BATCHES_BYTES + LISTS_BYTES);
    assert_in_range(least[2] - least[1], BATCHES_BYTES + DECODER_BYTES,
                    BATCHES_BYTES + DECODER_BYTES + LISTS_BYTES);
}

/* The caller may keep them as long as the other large fields. */
static void kept_images_outlive_their_batch(void **state)
{
    const struct loader_field fields[] = {follower("same", "copy.ppm")};
    char path[TEST_PATH_BYTES_MAX + 16];
    struct loader_options options = images_options(*state, path, fields, 1);
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    const struct batch_field *same = batch_field_named(batch, "same");
    size_t bytes = (size_t)same->stride_bytes[0] * batch->items_count;
    uint8_t *data = same->data, *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    struct batch_memory *memory = batch_field_retain(same);
    loader_release(loader, batch);
    for (int i = 0; i < 20 && loader_next(loader, &batch, &err) == LOADER_BATCH; i++)
        loader_release(loader, batch);
    loader_close(loader);
    assert_memory_equal(data, copy, bytes);
    batch_memory_release(memory);
    free(copy);
}

static void wrong_options_are_refused(void **state)
{
    struct loader_field sized = follower("a", "copy.ppm"), cropped = follower("a", "copy.ppm"),
                        flipped = follower("a", "copy.ppm"),
                        unsized = image_of_its_own("a", "copy.ppm", 0, 8),
                        large = image_of_its_own("a", "copy.ppm", 5000, 8),
                        uncropped = image_of_its_own("a", "copy.ppm", 8, 8),
                        chained = follower("a", "copy.ppm"), itself = follower("a", "copy.ppm"),
                        unknown = follower("a", "copy.ppm"), plain = follower("a", "copy.ppm"),
                        with_path = follower("a", "copy.ppm"),
                        with_default = image_of_its_own("a", "copy.ppm", 8, 8),
                        jittered = follower("a", "copy.ppm"),
                        text = {.name = "a", .from = "copy.jpg", .image.augment.hue = -0.1},
                        gray = {.name = "a", .from = "copy.jpg", .normalize.channels = 1};
    jittered.image.augment.contrast = NAN;
    sized.image.width = 8;
    cropped.image.crop = crop_options_default(CROP_NONE);
    flipped.image.crop.flip = true;
    uncropped.image.crop.scale_max = 2;
    chained.follows = "c";
    itself.follows = "a";
    unknown.follows = "x";
    with_path.path = "$";
    with_default.default_value = "1";
    const struct {
        struct loader_field field;
        const char *text;
        bool is_record, is_mixed, is_chained;
    } cases[] = {
        {sized, "follows another, but has a size", false, false},
        {cropped, "follows another, but has a size", false, false},
        {flipped, "follows another, but has a size", false, false},
        {unsized, "is an image without a size", false, false},
        {large, "field \"a\": the size of output images is invalid", false, false},
        {uncropped, "field \"a\": range of crop areas is invalid", true, false},
        {chained, "cannot follow \"c\"", false, false, true},
        {itself, "cannot follow \"a\"", false, false},
        {unknown, "cannot follow \"x\"", false, false},
        {plain, "cannot follow \"image\"", true, false},
        {plain, "cannot follow \"image\"", false, true},
        {with_path, "is not JSON", false, false},
        {with_default, "is not JSON", false, false},
        {jittered, "follows another, but has a size", false, false},
        {text, "is no image, but has a size", false, false},
        {gray, "is no image, but has a layout", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct loader_field fields[] = {cases[i].field, follower("c", "copy.ppm")};
        char path[TEST_PATH_BYTES_MAX + 16];
        struct loader_options options =
            images_options(*state, path, fields, cases[i].is_chained ? 2 : 1);
        struct loader *loader;
        struct err err;
        options.decode = cases[i].is_record ? LOADER_RECORD : LOADER_IMAGE;
        options.image.mixup.cutmix_alpha = cases[i].is_mixed;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_true(err.advice[0] || err.expected[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_of_the_same_pixels_is_the_image),
        cmocka_unit_test(followers_are_moved_but_keep_their_colors),
        cmocka_unit_test(fields_are_normalized_pixel_by_pixel),
        cmocka_unit_test(a_field_may_be_augmented),
        cmocka_unit_test(the_other_fields_ranks_and_workers_do_not_matter),
        cmocka_unit_test(each_image_has_choices_of_its_own),
        cmocka_unit_test(the_choices_are_those_of_another_seed),
        cmocka_unit_test(a_center_crop_is_that_of_the_image),
        cmocka_unit_test(masks_and_images_follow_a_field),
        cmocka_unit_test(bad_images_are_named_and_replaced),
        cmocka_unit_test(images_count_against_the_memory),
        cmocka_unit_test(kept_images_outlive_their_batch),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, fixture_tear_down);
}
