/*
 * mixup — tests that only the micro-batch determines which pictures are mixed and how, not the
 * worker that decodes it or earlier micro-batches.
 */
#include "tests/loader/fixture.h"

#include "base/hash.h"
#include "image/mixup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 200 samples in steps of 24: in the last step, two micro-batches have two items and four have
 * one. */
enum { SAMPLES = 200, BAD = 77, WIDTH = 20, HEIGHT = 16, PICTURE_BYTES = WIDTH * HEIGHT * 3 };

static int make_data(void **state)
{
    static struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    *state = &fixture;
    return 0;
}

static int remove_data(void **state)
{
    fixture_remove(*state);
    return 0;
}

static const struct mixup_options mixup_and_cutmix = {0.4, 1, 0.9, 0.5};

static struct loader_options make_mixup_options(const struct fixture *fixture)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.image.mixup = mixup_and_cutmix;
    return options;
}

static const void *field_data(const struct batch *batch, const char *name)
{
    const struct batch_field *field = batch_field_named(batch, name);
    assert_non_null(field);
    return field->data;
}

/* ---- Comparison with the specification, computed from the unmixed pictures. ---- */

struct counts {
    unsigned blended, pasted, left, alone;
};

static uint32_t partner_item(const struct batch *batch, uint32_t item)
{
    uint32_t partner = item;
    do
        partner = (partner + batch->items_count - 1) % batch->items_count;
    while (batch->items[partner].skipped);
    return partner;
}

static void check_pixels(const uint8_t *mixture, const uint8_t *own, const uint8_t *other,
                         struct mixup_choice choice)
{
    for (uint32_t i = 0; i < PICTURE_BYTES; i++) {
        uint32_t x = i / 3 % WIDTH, y = i / 3 / WIDTH;
        double part = choice.weight / 256.0, expected = own[i];
        if (choice.kind == MIXUP_BLEND)
            expected = floor(own[i] * part + other[i] * (1 - part) + 0.5);
        if (choice.kind == MIXUP_PASTE && x - choice.box.x < choice.box.width &&
            y - choice.box.y < choice.box.height)
            expected = other[i];
        assert_int_equal(mixture[i], expected);
    }
}

static void check_batch(const struct mixup *mixup, uint64_t seed, const struct batch *plain,
                        const struct batch *batch, struct counts *counts)
{
    const uint8_t *pictures = field_data(plain, "image"), *mixtures = field_data(batch, "image");
    const int32_t *labels = field_data(batch, "label"),
                  *partner_labels = field_data(batch, "partner_label");
    const float *weights = field_data(batch, "label_weight");
    assert_int_equal(batch->items_count, plain->items_count);
    for (uint32_t i = 0; i < batch->items_count; i++) {
        struct sample_ref ref = batch->items[i].ref;
        if (batch->items[i].skipped)
            continue;
        uint32_t partner = partner_item(batch, i);
        struct mixup_choice choice = {.kind = MIXUP_NONE};
        if (partner != i)
            choice = mixup_choose(mixup, WIDTH, HEIGHT, seed, ref.dataset, ref.epoch, ref.sample);
        check_pixels(mixtures + i * PICTURE_BYTES, pictures + i * PICTURE_BYTES,
                     pictures + partner * PICTURE_BYTES, choice);
        assert_int_equal(labels[i], ((const int32_t *)field_data(plain, "label"))[i]);
        assert_int_equal(partner_labels[i], labels[choice.kind == MIXUP_NONE ? i : partner]);
        assert_true(weights[i] == mixup_label_weight(choice, WIDTH, HEIGHT));
        counts->alone += partner == i;
        counts->blended += choice.kind == MIXUP_BLEND;
        counts->pasted += choice.kind == MIXUP_PASTE;
        counts->left += partner != i && choice.kind == MIXUP_NONE;
    }
}

/* Runs a loader with mixup and one without it side by side. */
static struct counts check_all(struct loader_options options)
{
    struct counts counts = {0};
    struct loader *loaders[2];
    const struct batch *batches[2];
    struct mixup *mixup;
    struct err err;
    int status;
    assert_ok(mixup_open(&options.image.mixup, &mixup, &err), &err);
    assert_ok(loader_open(&options, &loaders[1], &err), &err);
    options.image.mixup = (struct mixup_options){0};
    assert_ok(loader_open(&options, &loaders[0], &err), &err);
    while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
        assert_null(batch_field_named(batches[0], "partner_label"));
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
        check_batch(mixup, options.seed, batches[0], batches[1], &counts);
        loader_release(loaders[0], batches[0]);
        loader_release(loaders[1], batches[1]);
    }
    assert_ok(status, &err);
    assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_END);
    loader_close(loaders[0]);
    loader_close(loaders[1]);
    mixup_close(mixup);
    return counts;
}

static void each_image_is_mixed_with_the_previous_one(void **state)
{
    struct loader_options options = make_mixup_options(*state);
    struct counts counts = check_all(options);
    assert_int_equal(counts.alone, 4); /* micro-batches of one item have no partner */
    assert_int_equal(counts.blended + counts.pasted + counts.left, SAMPLES - 4);
    assert_true(counts.blended > 60 && counts.pasted > 60 && counts.left > 5);
    options.batching.micro = 1; /* each micro-batch has one picture */
    counts = check_all(options);
    assert_int_equal(counts.alone, SAMPLES);
    options.batching.micro = 24;
    counts = check_all(options);
    assert_int_equal(counts.alone, 0);
}

static void labels_of_64_bits_have_the_same_values(void **state)
{
    static const char *const fields[] = {"label", "partner_label"};
    struct loader *loaders[2];
    const struct batch *batches[2];
    struct err err;
    int status;
    for (int wide = 0; wide < 2; wide++) {
        struct loader_options options = make_mixup_options(*state);
        options.image.label_dtype = wide ? DTYPE_I64 : DTYPE_I32;
        assert_ok(loader_open(&options, &loaders[wide], &err), &err);
    }
    while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
        for (int f = 0; f < 2; f++) {
            const struct batch_field *wide = batch_field_named(batches[1], fields[f]);
            const int32_t *narrow = field_data(batches[0], fields[f]);
            assert_int_equal(wide->dtype, DTYPE_I64);
            assert_int_equal(wide->stride_bytes[0], 8);
            for (uint32_t i = 0; i < batches[0]->items_count; i++)
                assert_int_equal(((const int64_t *)wide->data)[i], narrow[i]);
        }
        assert_memory_equal(field_data(batches[0], "label_weight"),
                            field_data(batches[1], "label_weight"),
                            batches[0]->items_count * sizeof(float));
        loader_release(loaders[0], batches[0]);
        loader_release(loaders[1], batches[1]);
    }
    assert_ok(status, &err);
    loader_close(loaders[0]);
    loader_close(loaders[1]);
    struct loader_options options = make_mixup_options(*state);
    options.image.label_dtype = DTYPE_U8;
    assert_int_equal(loader_open(&options, &loaders[0], &err), -EINVAL);
    assert_string_equal(err.found, "U8");
}

static void starting_mid_step_mixes_the_delivered_items(void **state)
{
    struct loader_options options = make_mixup_options(*state);
    options.position = 24 + 13;
    options.positions_max = 60;
    struct counts counts = check_all(options);
    assert_int_equal(counts.alone + counts.blended + counts.pasted + counts.left, 60);
}

static void a_substitute_is_mixed_as_its_original(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    fixture_flip_in_field(&fixture, BAD, "jpg", 200);
    struct loader_options options = make_mixup_options(&fixture);
    struct counts counts = check_all(options);
    assert_int_equal(counts.alone + counts.blended + counts.pasted + counts.left, SAMPLES);
    /* skipped samples are never partners */
    options.bad_policy = LOADER_BAD_SKIP;
    counts = check_all(options);
    assert_int_equal(counts.alone + counts.blended + counts.pasted + counts.left, SAMPLES - 1);
    options.batching.micro = 2;
    counts = check_all(options);
    assert_int_equal(counts.alone + counts.blended + counts.pasted + counts.left, SAMPLES - 1);
    assert_true(counts.alone >= 1);
    fixture_remove(&fixture);
}

static void a_failed_batch_is_reported_and_not_mixed(void **state)
{
    (void)state;
    struct fixture fixture;
    struct err err;
    fixture_make_default_images(&fixture, SAMPLES);
    fixture_flip_in_field(&fixture, BAD, "jpg", 200);
    struct loader_options options = make_mixup_options(&fixture);
    options.bad_policy = LOADER_BAD_STOP;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    fixture_remove(&fixture);
}

/* ---- Determinism. ---- */

/* Hashes of whole micro-batches by step and micro-batch number. */
enum { STEPS = (SAMPLES + 23) / 24, MICROS = 6 };
typedef uint64_t micro_hashes[STEPS][MICROS];

static void add_hashes(const struct loader_options *options, uint64_t batches_max,
                       micro_hashes hashes, struct cursor *ret_cursor)
{
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    assert_ok(loader_open(options, &loader, &err), &err);
    while (batches_max-- > 0 && loader_next(loader, &batch, &err) == LOADER_BATCH) {
        uint64_t *hash = &hashes[batch->step][batch->micro];
        assert_int_equal(*hash, 0);
        *hash = 1;
        for (uint32_t f = 0; f < batch->fields_count; f++) {
            const struct batch_field *field = &batch->fields[f];
            *hash = *hash * 31 +
                    hash_64(field->data, (size_t)field->stride_bytes[0] * batch->items_count);
        }
        loader_release(loader, batch);
    }
    if (ret_cursor)
        *ret_cursor = loader_cursor(loader);
    loader_close(loader);
}

static void mixtures_do_not_depend_on_workers_ranks_or_resumes(void **state)
{
    struct loader_options options = make_mixup_options(*state);
    micro_hashes wanted = {{0}};
    options.workers = 1;
    add_hashes(&options, UINT64_MAX, wanted, NULL);
    for (unsigned workers = 2; workers <= 4; workers += 2) {
        micro_hashes given = {{0}};
        options.workers = workers;
        add_hashes(&options, UINT64_MAX, given, NULL);
        assert_memory_equal(given, wanted, sizeof wanted);
    }
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        micro_hashes given = {{0}};
        options.batching.ranks = ranks;
        for (options.batching.rank = 0; options.batching.rank < ranks; options.batching.rank++)
            add_hashes(&options, UINT64_MAX, given, NULL);
        assert_memory_equal(given, wanted, sizeof wanted);
    }
    options.batching.rank = 0, options.batching.ranks = 1;
    for (uint64_t first_batches = MICROS; first_batches < MICROS * STEPS;
         first_batches += 2 * MICROS) {
        micro_hashes given = {{0}};
        struct cursor cursor;
        struct loader_options rest = options;
        add_hashes(&options, first_batches, given, &cursor);
        rest.position = cursor.position;
        add_hashes(&rest, UINT64_MAX, given, NULL);
        assert_memory_equal(given, wanted, sizeof wanted);
    }
}

static void mixtures_depend_on_seed_and_epoch(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = make_mixup_options(fixture);
    micro_hashes hashes[3] = {{{0}}};
    options.order = ORDER_SEQUENTIAL;
    options.image.crop.kind = CROP_CENTER;
    options.image.crop.flip = false;
    options.positions_max = 24;
    for (int i = 0; i < 3; i++) {
        options.seed = i == 1 ? 6 : 5;
        options.epoch = i == 2 ? 1 : 0;
        options.epochs_max = 1;
        add_hashes(&options, UINT64_MAX, hashes[i], NULL);
    }
    for (int micro = 0; micro < MICROS; micro++)
        for (int i = 0; i < 3; i++)
            assert_true(hashes[i][0][micro] != 0 &&
                        hashes[i][0][micro] != hashes[(i + 1) % 3][0][micro]);
}

static void impossible_options_are_refused(void **state)
{
    struct loader_options options = make_mixup_options(*state);
    struct loader *loader;
    struct err err;
    options.image.mixup.probability = 2;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.what, "probability"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_image_is_mixed_with_the_previous_one),
        cmocka_unit_test(labels_of_64_bits_have_the_same_values),
        cmocka_unit_test(starting_mid_step_mixes_the_delivered_items),
        cmocka_unit_test(a_substitute_is_mixed_as_its_original),
        cmocka_unit_test(a_failed_batch_is_reported_and_not_mixed),
        cmocka_unit_test(mixtures_do_not_depend_on_workers_ranks_or_resumes),
        cmocka_unit_test(mixtures_depend_on_seed_and_epoch),
        cmocka_unit_test(impossible_options_are_refused),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
