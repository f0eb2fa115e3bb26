/*
 * bad — tests: bad samples stop the run or are replaced, deterministically; errors name them.
 */
#include "tests/loader/fixture.h"
#include "tests/support/gate.h"

#include "base/philox.h"
#include "image/pipeline/pipeline.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 200,
    BAD = 77,
    BAD_IN_SAME_BATCH = 79 /* in the same micro-batch as BAD in sequential order */
};

/* Sample BAD has a flipped bit. */
static int make_damaged(void **state)
{
    fixture_set_up(state, SAMPLES);
    fixture_flip_in_field(*state, BAD, "jpg", 200);
    return 0;
}

struct line_log {
    int count;
    char last[LOG_LINE_BYTES_MAX];
};

static void keep_line(void *context, enum log_level level, const char *line)
{
    struct line_log *lines = context;
    assert_int_equal(level, LOG_WARN);
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

static uint64_t first_candidate(uint64_t seed, uint32_t epoch, uint64_t sample)
{
    struct philox_block block = philox_sample(seed, 0, epoch, sample, PHILOX_SUBSTITUTE, 0);
    return ((uint64_t)block.word[0] << 32 | block.word[1]) % SAMPLES;
}

static void flipped_bit_stops_the_run_and_is_named(void **state)
{
    struct fixture *fixture = *state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = fixture_loader_options(fixture, decode);
        char path[TEST_PATH_BYTES_MAX];
        struct shard_field field;
        struct err err;
        options.bad_policy = LOADER_BAD_STOP;
        fixture_find_field(fixture, BAD, "jpg", path, &field);
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, "\"k000077\""));
        assert_non_null(strstr(err.what, "CRC32C"));
        assert_string_equal(err.path, path);
        assert_int_equal(err.offset, field.data_offset);
        assert_non_null(strstr(err.advice, "millrace verify"));
    }
}

/* Of two bad samples in one micro-batch, the first is named, regardless of which worker is
 * faster. */
static void the_first_bad_sample_of_a_batch_is_named(void **state)
{
    struct fixture *fixture = *state;
    fixture_flip_in_field(fixture, BAD_IN_SAME_BATCH, "jpg", 200);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
        struct err err;
        options.order = ORDER_SEQUENTIAL;
        options.bad_policy = LOADER_BAD_STOP;
        options.workers = workers;
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, "\"k000077\""));
    }
}

static void batches_before_a_bad_one_are_delivered(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.order = ORDER_SEQUENTIAL;
    options.bad_policy = LOADER_BAD_STOP;
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t batches = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    /* waits until the read-ahead includes the bad sample */
    while (loader_stats(loader).ahead_count <= 3 * 6 + 1)
        gate_pause();
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        batches++;
        loader_release(loader, batch);
    }
    /* sample 77 is item 1 of micro-batch 1 of step 3 (positions 72 + 4 j + i) */
    assert_int_equal(batches, 3 * 6 + 1);
    loader_close(loader);
}

static void bad_sample_is_substituted_the_same_way_every_time(void **state)
{
    struct fixture *fixture = *state;
    struct image_options image = {
        .width = 20, .height = 16, .crop = crop_options_default(CROP_RANDOM)};
    image.crop.flip = true;
    struct image_pipeline *pipeline;
    struct err err;
    assert_ok(image_pipeline_open(&image, &pipeline, &err), &err);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
        struct line_log lines = {0};
        struct log log = {.write = keep_line, .context = &lines};
        struct loader *loader;
        const struct batch *batch;
        int substituted = 0;
        options.workers = workers;
        options.epoch = 2;
        options.log = &log;
        uint64_t expected = first_candidate(options.seed, 2, BAD);
        assert_true(expected != BAD);
        assert_ok(loader_open(&options, &loader, &err), &err);
        while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++) {
                const struct batch_item *item = &batch->items[i];
                assert_int_equal(item->substituted, item->ref.sample == BAD);
                if (!item->substituted)
                    continue;
                char path[TEST_PATH_BYTES_MAX];
                struct shard_field field;
                size_t bytes;
                uint8_t pixels[20 * 16 * 3];
                substituted++;
                assert_memory_equal(item->key, "k000077", 7);
                fixture_find_field(fixture, expected, "jpg", path, &field);
                unsigned char *shard = test_read_file(path, &bytes);
                struct image_key key = {.seed = options.seed, .epoch = 2, .sample = expected};
                assert_ok(image_pipeline_run(pipeline, shard + field.data_offset, field.size_bytes,
                                             path, key, pixels, 60, &err),
                          &err);
                free(shard);
                assert_memory_equal((uint8_t *)batch->fields[0].data + i * sizeof pixels, pixels,
                                    sizeof pixels);
                assert_int_equal(((int32_t *)batch->fields[1].data)[i], expected % FIXTURE_CLASSES);
            }
            loader_release(loader, batch);
        }
        const struct loader_bad_sample *list;
        assert_int_equal(loader_quarantine(loader, &list), 1);
        assert_int_equal(list[0].ref.sample, BAD);
        assert_int_equal(list[0].ref.epoch, 2);
        assert_int_equal(list[0].substitute, expected);
        assert_non_null(strstr(list[0].reason, "CRC32C"));
        assert_int_equal(loader_stats(loader).bad_samples_count, 1);
        assert_int_equal(substituted, 1);
        assert_int_equal(lines.count, 1);
        assert_non_null(strstr(lines.last, "k000077"));
        loader_close(loader);
    }
    image_pipeline_close(pipeline);
}

/* Checks that only sample BAD is skipped, for the given reason. */
static void expect_skipped(struct loader_options options, const char *reason)
{
    struct line_log lines = {0};
    struct log log = {.write = keep_line, .context = &lines};
    struct loader *loader;
    const struct batch *batch;
    const struct loader_bad_sample *list;
    struct err err;
    uint64_t skipped = 0, items = 0;
    int status;
    options.bad_policy = LOADER_BAD_SKIP;
    options.log = &log;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            const struct batch_item *item = &batch->items[i];
            assert_int_equal(item->skipped, item->ref.sample == BAD);
            assert_false(item->substituted);
            assert_int_equal(item->fields_count,
                             options.decode == LOADER_BYTES && !item->skipped ? 2 : 0);
            /* skipping moves no other item */
            if (options.decode == LOADER_IMAGE && !item->skipped)
                assert_int_equal(((const int32_t *)batch->fields[1].data)[i],
                                 item->ref.sample % FIXTURE_CLASSES);
            skipped += item->skipped;
        }
        items += batch->items_count;
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    assert_int_equal(items, SAMPLES); /* including the skipped one */
    assert_int_equal(skipped, 1);
    assert_int_equal(loader_quarantine(loader, &list), 1);
    assert_int_equal(list[0].ref.sample, BAD);
    assert_int_equal(list[0].substitute, BAD);
    assert_non_null(strstr(list[0].reason, reason));
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.last, "k000077"));
    assert_non_null(strstr(lines.last, "left out"));
    loader_close(loader);
}

static void a_skipped_sample_with_a_flipped_bit_leaves_its_item_empty(void **state)
{
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++)
        expect_skipped(fixture_loader_options(*state, decode), "CRC32C");
}

/* The bytes match their checksum; only the decoder detects that they are not a picture. */
static void an_undecodable_skipped_image_leaves_its_item_empty(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    struct delivery delivered;
    struct loader_stats stats;
    fixture_options.cut_jpg = BAD;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(stats.bad_samples_count, 0);
    delivery_free(&delivered);
    expect_skipped(fixture_loader_options(&fixture, LOADER_IMAGE), "JPEG");
    fixture_remove(&fixture);
}

static void bytes_of_substitutes_stay_valid_until_release(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct delivery one, other;
    consume_all(&options, &one, NULL, NULL);
    options.workers = 4;
    consume_all(&options, &other, NULL, NULL);
    assert_true(one.hash == other.hash);
    assert_non_null(strstr(one.text, " 77 k000077 -1 1\n"));
    delivery_free(&one);
    delivery_free(&other);
}

static void digests_follow_the_order_despite_substitutes(void **state)
{
    (void)state;
    struct fixture whole, broken;
    struct fixture_options options = fixture_options_default(SAMPLES);
    fixture_make_images(&whole, &options);
    fixture_make_images(&broken, &options);
    fixture_flip_in_field(&broken, BAD, "cls", 0);
    struct delivery delivered;
    struct cursor a, b;
    struct loader_options intact_options = fixture_loader_options(&whole, LOADER_IMAGE);
    struct loader_options broken_options = fixture_loader_options(&broken, LOADER_IMAGE);
    consume_all(&intact_options, &delivered, NULL, &a);
    delivery_free(&delivered);
    consume_all(&broken_options, &delivered, NULL, &b);
    delivery_free(&delivered);
    assert_true(a.set_digest == b.set_digest && a.sequence_digest == b.sequence_digest);
    fixture_remove(&whole);
    fixture_remove(&broken);
}

static void expect_reason(struct fixture_options fixture_options, const char *reason)
{
    struct fixture fixture;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct loader_bad_sample *list;
    struct err err;
    struct delivery delivered = {0};
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, &delivered, UINT64_MAX);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(loader_quarantine(loader, &list), 1);
    assert_int_equal(list[0].ref.sample, BAD);
    if (!strstr(list[0].reason, reason))
        fail_msg("the reason is %s, expected %s", list[0].reason, reason);
    loader_close(loader);
    delivery_free(&delivered);
    options.bad_policy = LOADER_BAD_STOP;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "k000077"));
    assert_non_null(strstr(err.path, "shard-000002.tar"));
    fixture_remove(&fixture);
}

static void missing_field_empty_member_and_bad_label_are_bad_samples(void **state)
{
    (void)state;
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.without_jpg = BAD;
    expect_reason(options, "no field \"jpg\"");
    options = fixture_options_default(SAMPLES);
    options.empty_jpg = BAD;
    expect_reason(options, "");
    options = fixture_options_default(SAMPLES);
    options.bad_label = BAD;
    expect_reason(options, "expected 0 to 6, found \"0?\"");
}

static void too_many_fields_are_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    char names[300];
    fixture_make_default_images(&fixture, 10);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct loader *loader;
    struct err err = {0};
    options.image.field = "jpg;jpg;jpg;jpg;jpg;jpg;jpg;jpg;cls";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "too many alternative fields");
    memset(names, 'x', sizeof names);
    memcpy(names, "jpg;", 4);
    options.image.field = names;
    names[256] = '\0';
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "the list of fields is too long");
    names[255] = '\0';
    assert_ok(loader_open(&options, &loader, &err), &err);
    loader_close(loader);
    fixture_remove(&fixture);
}

/* Only dataset.json is read, so this works even if all shards are missing. */
static void order_digests_need_no_reading(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *batch;
    struct err err = {0};
    double ratio;
    assert_int_equal(test_run("rm -f '%s'/*.tar", fixture.folder), 0);
    options.order_only = true;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_shape(loader).samples, SAMPLES);
    assert_ok(loader_quality(loader, &ratio, &err), &err);
    assert_int_equal(loader_stats(loader).reads_count, 0);
    assert_int_equal(loader_next(loader, &batch, &err), -EINVAL);
    loader_close(loader);
    fixture_remove(&fixture);
}

static void empty_members_are_delivered_as_bytes(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.empty_jpg = BAD;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    bool seen = false;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            if (batch->items[i].ref.sample != BAD)
                continue;
            assert_int_equal(batch->items[i].fields_count, 2);
            assert_int_equal(batch->items[i].fields[1].bytes, 0);
            assert_non_null(batch->items[i].fields[1].data);
            seen = true;
        }
        loader_release(loader, batch);
    }
    assert_true(seen);
    loader_close(loader);
    fixture_remove(&fixture);
}

/* Memory in use in all of malloc's arenas. A sanitizer's malloc counts nothing here, but reports
 * leaks itself. */
static size_t bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void bad_photos_leak_no_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.broken_jpg_stride = 3;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    size_t before = 0;
    options.bad_fraction_max = 1;
    options.epochs_max = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    for (uint64_t i = 0; i < (test_is_sanitized() ? 200 : 1500); i++) {
        if (i == 100) /* by now every worker has decoded the largest photo */
            before = bytes_in_use();
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        loader_release(loader, batch);
    }
    size_t after = bytes_in_use();
    print_message("%" PRIu64 " bad photos, %zu bytes more in use\n",
                  loader_stats(loader).bad_samples_count, after > before ? after - before : 0);
    assert_true(loader_stats(loader).bad_samples_count > 200);
    assert_true(after < before + (64 << 10)); /* less than 64 bytes per bad photo */
    loader_close(loader);
    fixture_remove(&fixture);
}

static void without_verification_flipped_bits_are_delivered(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct delivery delivered;
    struct loader_stats stats;
    options.verify = false;
    options.bad_policy = LOADER_BAD_STOP;
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(stats.bad_samples_count, 0);
    delivery_free(&delivered);
}

static void a_flipped_bit_in_text_spoils_the_windows_of_its_block(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, 200000, 65537, 2);
    /* member 1 has 128 + 131074 bytes in blocks of 65536; the second block starts at token 32704 */
    fixture_flip_in_field(&fixture, 1, "npy", 65536 + 1000);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    int substituted = 0;
    options.text.block = 1024;
    options.bad_fraction_max = 1;
    assert_ok(loader_open(&options, &loader, &err), &err);
    int status;
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            const struct batch_item *item = &batch->items[i];
            bool is_affected = memcmp(item->key, "text-000001", 11) == 0 &&
                               (item->window + 1) * 1024 >= 32704 &&
                               item->window * 1024 < 32704 + 32768;
            assert_int_equal(item->substituted, is_affected);
            substituted += is_affected;
        }
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    assert_int_equal(substituted, 33);
    loader_close(loader);
    fixture_remove(&fixture);
}

static void a_token_outside_the_vocabulary_is_named(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, 9000, 4097, 2);
    assert_int_equal(
        test_run(
            "chmod u+w '%s/dataset.json' && sed -i "
            "'s/\"vocabulary\":5000,\"document_end\":4999/\"vocabulary\":100,\"document_end\":99/' "
            "'%s/dataset.json'",
            fixture.folder, fixture.folder),
        0);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct err err;
    options.bad_policy = LOADER_BAD_STOP;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "token is not in the vocabulary: expected below 100, found "));
    assert_true(err.offset > 0);
    fixture_remove(&fixture);
}

int main(void)
{
#define OF_DAMAGED(name) cmocka_unit_test_setup_teardown(name, make_damaged, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        OF_DAMAGED(flipped_bit_stops_the_run_and_is_named),
        OF_DAMAGED(the_first_bad_sample_of_a_batch_is_named),
        OF_DAMAGED(batches_before_a_bad_one_are_delivered),
        OF_DAMAGED(bad_sample_is_substituted_the_same_way_every_time),
        OF_DAMAGED(a_skipped_sample_with_a_flipped_bit_leaves_its_item_empty),
        cmocka_unit_test(an_undecodable_skipped_image_leaves_its_item_empty),
        OF_DAMAGED(bytes_of_substitutes_stay_valid_until_release),
        cmocka_unit_test(digests_follow_the_order_despite_substitutes),
        cmocka_unit_test(missing_field_empty_member_and_bad_label_are_bad_samples),
        cmocka_unit_test(too_many_fields_are_refused),
        cmocka_unit_test(order_digests_need_no_reading),
        cmocka_unit_test(empty_members_are_delivered_as_bytes),
        cmocka_unit_test(bad_photos_leak_no_memory),
        OF_DAMAGED(without_verification_flipped_bits_are_delivered),
        cmocka_unit_test(a_flipped_bit_in_text_spoils_the_windows_of_its_block),
        cmocka_unit_test(a_token_outside_the_vocabulary_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
