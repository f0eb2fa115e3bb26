/*
 * follow — tests fields that follow the geometry of images: labels, boxes, keypoints, and arrays
 * that follow boxes.
 */
#include "base/str.h"
#include "shards/format/npy.h"
#include "shards/format/shard.h"
#include "tests/loader/fixture.h"

#include <errno.h>
#include <math.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 60, BOXES_MAX = 3, SIDE = 40 };

/* Sample s has s mod 4 boxes side by side, painted white on black in the image and with their
 * number from 1 in the mask. */
struct scene {
    uint32_t width, height, boxes_count;
    double boxes[BOXES_MAX][4]; /* x, y, width, height */
};

static struct scene scene_of(uint64_t s)
{
    struct scene scene = {.width = 24 + (uint32_t)(s * 7 % 60),
                          .height = 20 + (uint32_t)(s * 11 % 50),
                          .boxes_count = s % 4};
    for (uint32_t b = 0; b < scene.boxes_count; b++) {
        double *box = scene.boxes[b];
        box[0] = b * (scene.width / 3) + 1;
        box[1] = (double)((s + 3 * b) % 7);
        box[2] = scene.width / 3 - 2 - (double)(s % 3);
        box[3] = scene.height - box[1] - (double)(s % 5);
    }
    return scene;
}

static uint8_t *paint(const struct scene *scene)
{
    uint8_t *mask = calloc(scene->width, scene->height);
    assert_non_null(mask);
    for (uint32_t b = 0; b < scene->boxes_count; b++) {
        const double *box = scene->boxes[b];
        for (uint32_t y = (uint32_t)box[1]; y < box[1] + box[3]; y++)
            memset(mask + y * scene->width + (uint32_t)box[0], (int)b + 1, (size_t)box[2]);
    }
    return mask;
}

static void add(struct shard_writer *writer, const char *extension, const void *data, size_t bytes)
{
    struct err err;
    assert_ok(shard_writer_add_field(writer, extension, data, bytes, &err), &err);
}

static void add_image(struct shard_writer *writer, const struct scene *scene, const uint8_t *mask)
{
    char header[40];
    size_t pixels = (size_t)scene->width * scene->height;
    size_t header_bytes =
        (size_t)snprintf(header, sizeof header, "P6\n%u %u\n255\n", scene->width, scene->height);
    uint8_t *ppm = malloc(header_bytes + 3 * pixels);
    assert_non_null(ppm);
    memcpy(ppm, header, header_bytes);
    for (size_t i = 0; i < 3 * pixels; i++)
        ppm[header_bytes + i] = mask[i / 3] ? 255 : 0;
    add(writer, "ppm", ppm, header_bytes + 3 * pixels);
    free(ppm);
}

static void add_mask(struct shard_writer *writer, uint32_t width, uint32_t height,
                     const uint8_t *mask, bool is_palette)
{
    struct spng_ihdr header = {.width = width,
                               .height = height,
                               .bit_depth = 8,
                               .color_type = is_palette ? SPNG_COLOR_TYPE_INDEXED
                                                        : SPNG_COLOR_TYPE_GRAYSCALE};
    struct spng_plte palette = {.n_entries = 4};
    struct spng_ctx *codec = spng_ctx_new(SPNG_CTX_ENCODER);
    size_t bytes;
    int code;
    spng_set_option(codec, SPNG_ENCODE_TO_BUFFER, 1);
    assert_int_equal(spng_set_ihdr(codec, &header), 0);
    if (is_palette)
        assert_int_equal(spng_set_plte(codec, &palette), 0);
    assert_int_equal(
        spng_encode_image(codec, mask, (size_t)width * height, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
        0);
    void *png = spng_get_png_buffer(codec, &bytes, &code);
    assert_non_null(png);
    add(writer, "png", png, bytes);
    free(png);
    spng_ctx_free(codec);
}

static void add_numbers(struct shard_writer *writer, const struct scene *scene, uint64_t s)
{
    struct str json = {0}, array = {0};
    uint8_t header[NPY_ARRAY_HEADER_BYTES];
    str_add_format(&json, "{\"boxes\":[");
    for (uint32_t b = 0; b < scene->boxes_count; b++)
        str_add_format(&json, "%s[%g,%g,%g,%g]", b ? "," : "", scene->boxes[b][0],
                       scene->boxes[b][1], scene->boxes[b][2], scene->boxes[b][3]);
    str_add_format(&json, "],\"classes\":[");
    for (uint32_t b = 0; b < scene->boxes_count; b++)
        str_add_format(&json, "%s%d", b ? "," : "", (int)b + 1);
    str_add_format(&json, "],\"points\":[%u.5,%u.5,2,0,0,0]}", scene->width / 2, scene->height / 2);
    if (s % 12 != 8) /* such a sample has no boxes */
        add(writer, "json", json.data, json.bytes);
    npy_encode_array_header(DTYPE_F32, 2, (int64_t[]){scene->boxes_count, 2}, header);
    str_add(&array, header, sizeof header);
    for (uint32_t b = 0; b < scene->boxes_count; b++)
        str_add(&array, (float[]){(float)s, (float)b + 1}, 8);
    add(writer, "npy", array.data, array.bytes);
    str_deinit(&json);
    str_deinit(&array);
}

/* wrong_mask, wrong_npy: a sample with that defect; -1: none. */
static void make(struct fixture *fixture, int64_t wrong_mask, int64_t wrong_npy)
{
    struct err err;
    struct shard_writer *writer = fixture_begin_tar(fixture, SAMPLES);
    for (uint64_t s = 0; s < SAMPLES; s++) {
        struct scene scene = scene_of(s);
        char key[16];
        snprintf(key, sizeof key, "k%03d", (int)s);
        assert_ok(shard_writer_begin_sample(writer, key, &err), &err);
        uint8_t *mask = paint(&scene);
        scene.boxes_count += (int64_t)s == wrong_npy;
        add_numbers(writer, &scene, s);
        add_mask(writer, scene.width, scene.height - ((int64_t)s == wrong_mask), mask, s % 2);
        add_image(writer, &scene, mask);
        free(mask);
    }
    fixture_end_tar(writer);
}

static const struct loader_field fields[] = {
    /* before its boxes */
    {.name = "ids",
     .from = "npy",
     .decode = LOADER_FIELD_ARRAY,
     .dtype = DTYPE_F32,
     .rank = 2,
     .follows = "boxes"},
    {.name = "labels",
     .from = "png",
     .decode = LOADER_FIELD_LABELS,
     .follows = "image",
     .dtype = DTYPE_U8},
    {.name = "wide",
     .from = "png",
     .decode = LOADER_FIELD_LABELS,
     .follows = "image",
     .dtype = DTYPE_I64},
    {.name = "boxes",
     .from = "json",
     .path = "$.boxes",
     .decode = LOADER_FIELD_BOXES,
     .follows = "image",
     .box_format = LOADER_BOX_XYWH,
     .default_value = "[]"},
    {.name = "classes",
     .from = "json",
     .path = "$.classes",
     .decode = LOADER_FIELD_ARRAY,
     .dtype = DTYPE_I64,
     .rank = 1,
     .follows = "boxes",
     .default_value = "[]"},
    {.name = "points",
     .from = "json",
     .path = "$.points",
     .decode = LOADER_FIELD_KEYPOINTS,
     .follows = "image",
     .default_value = "[]"},
};
enum { FIELDS_COUNT = sizeof fields / sizeof fields[0] };

static struct loader_options follow_options(const struct fixture *fixture, char *path)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    snprintf(path, TEST_PATH_BYTES_MAX + 16, "%s/a.tar", fixture->folder);
    options.dataset = path;
    options.image.field = "ppm";
    options.image.width = SIDE;
    options.image.height = SIDE + 8;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.requires_label = false;
    options.fields = fields;
    options.fields_count = FIELDS_COUNT;
    options.epochs_max = 3;
    return options;
}

/* Checks an item's labels against its boxes and pixels. Returns its number of boxes. */
static int64_t check_item(const struct batch *batch, uint32_t i, bool is_augmented)
{
    const struct batch_field *boxes = batch_field_named(batch, "boxes"),
                             *labels = batch_field_named(batch, "labels"),
                             *image = batch_field_named(batch, "image");
    const uint8_t *label = (const uint8_t *)labels->data + i * labels->stride_bytes[0],
                  *rgb = (const uint8_t *)image->data + i * image->stride_bytes[0];
    const int64_t *wide =
        (const int64_t *)batch_field_named(batch, "wide")->data + i * labels->stride_bytes[0];
    const float *box = (const float *)boxes->data + boxes->offsets[i];
    const int64_t *classes =
        (const int64_t *)batch_field_named(batch, "classes")->data + boxes->offsets[i] / 4;
    const float *ids = (const float *)batch_field_named(batch, "ids")->data + boxes->offsets[i] / 2;
    int64_t count = (boxes->offsets[i + 1] - boxes->offsets[i]) / 4;
    assert_int_equal(boxes->shapes[2 * i], count);
    assert_int_equal(boxes->shapes[2 * i + 1], 4);
    assert_int_equal(batch_field_named(batch, "classes")->shapes[i], count);
    assert_int_equal(batch_field_named(batch, "ids")->shapes[2 * i], count);
    for (int64_t b = 0; b < count; b++)
        assert_true(ids[2 * b + 1] == (float)classes[b]);
    for (uint32_t at = 0; at < SIDE * (SIDE + 8); at++) {
        double x = at % SIDE + 0.5, y = at / SIDE + 0.5, slack = is_augmented ? 2.5 : 1e-4;
        bool is_inside = false, is_near = false;
        assert_int_equal(wide[at], label[at]);
        for (int64_t b = 0; b < count; b++) {
            double depth = fmin(fmin(x - (double)box[4 * b], (double)box[4 * b + 2] - x),
                                fmin(y - (double)box[4 * b + 1], (double)box[4 * b + 3] - y));
            if (label[at] == classes[b])
                is_inside = depth > -slack;
            is_near = is_near || depth > slack;
            if (!is_augmented && depth > slack)
                assert_int_equal(label[at], classes[b]);
        }
        assert_int_equal(label[at] != 0, label[at] && is_inside);
        if (!is_augmented && (rgb[3 * at] == 0 || rgb[3 * at] == 255))
            assert_int_equal(label[at] != 0, rgb[3 * at] == 255);
    }
    return count;
}

static uint64_t check_all(const struct loader_options *options, bool is_augmented,
                          struct loader_stats *ret_stats, uint64_t *ret_hashes)
{
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint64_t boxes = 0, hashes = 0;
    int status;
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        struct delivery delivered = {0};
        for (uint32_t i = 0; i < batch->items_count; i++)
            if (!batch->items[i].skipped)
                boxes += (uint64_t)check_item(batch, i, is_augmented);
        delivery_add(&delivered, batch);
        hashes += batch->items_count ? delivered.hash : 0;
        delivery_free(&delivered);
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    if (ret_stats)
        *ret_stats = loader_stats(loader);
    if (ret_hashes)
        *ret_hashes = hashes;
    loader_close(loader);
    return boxes;
}

static void labels_boxes_and_pixels_agree(void **state)
{
    (void)state;
    static const enum crop_kind crops[] = {CROP_NONE, CROP_CENTER, CROP_RANDOM};
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    make(&fixture, -1, -1);
    for (int i = 0; i < 6; i++) {
        struct loader_options options = follow_options(&fixture, path);
        options.bad_policy = LOADER_BAD_STOP;
        options.image.crop = crop_options_default(crops[i / 2]);
        options.image.crop.flip = i % 2;
        uint64_t boxes = check_all(&options, false, NULL, NULL);
        if (i < 2)
            assert_int_equal(boxes, 3 * SAMPLES * 3 / 2);
        else
            assert_in_range(boxes, 1, 3 * SAMPLES * 3 / 2 - 1);
    }
    struct loader_options options = follow_options(&fixture, path);
    options.image.augment.randaugment_ops = 2;
    options.image.augment.randaugment_magnitude = 20;
    assert_true(check_all(&options, true, NULL, NULL) > 0);
    fixture_remove(&fixture);
}

/* The same bytes with other numbers of ranks and workers, and with little memory. */
static void ranks_workers_and_memory_do_not_matter(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    uint64_t whole, hashes;
    make(&fixture, -1, -1);
    struct loader_options options = follow_options(&fixture, path);
    check_all(&options, false, NULL, &whole);
    for (uint64_t ranks = 1; ranks <= 3; ranks++) {
        uint64_t sum = 0;
        options.batching.ranks = ranks;
        options.workers = (unsigned)ranks;
        options.memory_bytes = ranks == 1 ? 12 << 20 : 64 << 20;
        for (options.batching.rank = 0; options.batching.rank < ranks; options.batching.rank++) {
            check_all(&options, false, NULL, &hashes);
            sum += hashes;
        }
        assert_true(sum == whole);
    }
    fixture_remove(&fixture);
}

/* Whatever the images' layout and type, what follows them has the same bytes. */
static void followers_do_not_depend_on_the_pixels(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    const struct batch *batches[2];
    struct loader *loaders[2];
    struct err err;
    int status;
    make(&fixture, -1, -1);
    struct loader_options options = follow_options(&fixture, path);
    options.image.augment.randaugment_ops = 2;
    options.image.augment.randaugment_magnitude = 9;
    assert_ok(loader_open(&options, &loaders[0], &err), &err);
    options.image.normalize.layout = IMAGE_LAYOUT_CHW;
    options.image.normalize.dtype = DTYPE_F16;
    options.image.normalize.channels = 1;
    assert_ok(loader_open(&options, &loaders[1], &err), &err);
    while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
        for (uint32_t f = 0; f < FIELDS_COUNT; f++) {
            const struct batch_field *a = batch_field_named(batches[0], fields[f].name),
                                     *b = batch_field_named(batches[1], fields[f].name);
            assert_int_equal(a->shape[0], b->shape[0]);
            assert_memory_equal(a->data, b->data, (size_t)a->stride_bytes[0] * a->shape[0]);
        }
        for (int i = 0; i < 2; i++)
            loader_release(loaders[i], batches[i]);
    }
    assert_ok(status, &err);
    for (int i = 0; i < 2; i++)
        loader_close(loaders[i]);
    fixture_remove(&fixture);
}

static void lost_boxes_depend_on_the_visible_part(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    struct loader_field list[FIELDS_COUNT];
    uint64_t previous = UINT64_MAX;
    make(&fixture, -1, -1);
    memcpy(list, fields, sizeof fields);
    for (int part = 0; part <= 4; part++) {
        struct loader_options options = follow_options(&fixture, path);
        const struct batch *batch;
        struct loader *loader;
        struct err err;
        uint64_t boxes = 0;
        list[3].visible_min = part / 4.0;
        options.fields = list;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
            boxes += batch_field_named(batch, "boxes")->shape[0] / 4;
            assert_int_equal(batch_field_named(batch, "classes")->shape[0] * 4,
                             batch_field_named(batch, "boxes")->shape[0]);
            loader_release(loader, batch);
        }
        loader_close(loader);
        assert_true(boxes > 0 && boxes < previous);
        previous = boxes;
    }
    fixture_remove(&fixture);
}

static void bad_fields_are_named_and_replaced(void **state)
{
    (void)state;
    static const char *const texts[] = {"another size than the image: expected ",
                                        "one entry for each of \"boxes\""};
    for (int i = 0; i < 2; i++) {
        struct fixture fixture;
        struct loader_stats stats;
        struct err err;
        char path[TEST_PATH_BYTES_MAX + 16];
        make(&fixture, i == 0 ? 22 : -1, i == 1 ? 8 : -1);
        struct loader_options options = follow_options(&fixture, path);
        options.bad_fraction_max = 1;
        check_all(&options, false, &stats, NULL);
        assert_int_equal(stats.bad_samples_count, 3);
        options.bad_policy = LOADER_BAD_SKIP;
        check_all(&options, false, &stats, NULL);
        assert_int_equal(stats.bad_samples_count, 3);
        options.bad_policy = LOADER_BAD_STOP;
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, texts[i]));
        fixture_remove(&fixture);
    }
}

static void keypoints_are_inside_or_invisible(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint64_t visible = 0, hidden = 0;
    make(&fixture, -1, -1);
    struct loader_options options = follow_options(&fixture, path);
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        const struct batch_field *points = batch_field_named(batch, "points");
        const float *p = points->data;
        for (uint64_t k = 0; k < points->shape[0] / 3; k++, p += 3) {
            if (p[2] != 0) {
                assert_true(p[2] == 2 && k % 2 == 0);
                assert_true(p[0] >= 0 && p[0] <= SIDE && p[1] >= 0 && p[1] <= SIDE + 8);
                visible++;
            } else {
                assert_true(p[0] == 0 && p[1] == 0);
                hidden++;
            }
        }
        loader_release(loader, batch);
    }
    assert_true(visible > 0 && hidden > visible);
    loader_close(loader);
    fixture_remove(&fixture);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct loader_field field;
        const char *text;
        bool is_record, is_mixed;
    } cases[] = {
        {{.decode = LOADER_FIELD_LABELS}, "cannot follow nothing", false, false},
        {{.decode = LOADER_FIELD_BOXES, .follows = "x"}, "cannot follow \"x\"", false, false},
        {{.decode = LOADER_FIELD_BOXES, .follows = "image"}, "cannot follow", true, false},
        {{.decode = LOADER_FIELD_BOXES, .follows = "image"}, "cannot follow", false, true},
        {{.decode = LOADER_FIELD_LABELS, .follows = "image", .dtype = DTYPE_F32},
         "cannot be labels of that type",
         false,
         false},
        {{.decode = LOADER_FIELD_BOXES, .follows = "image", .visible_min = 2},
         "out of range",
         false,
         false},
        {{.decode = LOADER_FIELD_BOXES, .follows = "image", .default_value = "[]"},
         "is not JSON",
         false,
         false},
        {{.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 1, .follows = "image"},
         "cannot follow \"image\"",
         false,
         false},
        {{.decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 2, .path = "$"},
         "cannot be an array from JSON",
         false,
         false},
        {{.decode = LOADER_FIELD_ARRAY, .rank = 1, .path = "$", .default_value = "[1]"},
         "is not empty",
         false,
         false}};
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 16];
    make(&fixture, -1, -1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader_options options = follow_options(&fixture, path);
        struct loader_field field = cases[i].field;
        struct loader *loader;
        struct err err;
        field.name = "a";
        field.from = "npy";
        options.decode = cases[i].is_record ? LOADER_RECORD : LOADER_IMAGE;
        options.image.mixup.cutmix_alpha = cases[i].is_mixed;
        options.fields = &field;
        options.fields_count = 1;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_true(err.advice[0] || err.expected[0]);
    }
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_boxes_and_pixels_agree),
        cmocka_unit_test(ranks_workers_and_memory_do_not_matter),
        cmocka_unit_test(followers_do_not_depend_on_the_pixels),
        cmocka_unit_test(lost_boxes_depend_on_the_visible_part),
        cmocka_unit_test(bad_fields_are_named_and_replaced),
        cmocka_unit_test(keypoints_are_inside_or_invisible),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
