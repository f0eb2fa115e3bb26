/*
 * stream — tests that the output of a loader is a pure function of its configuration.
 */
#include "tests/loader/fixture.h"
#include "tests/support/engines.h"
#include "tests/support/gate.h"

#include "image/pipeline/pipeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 250 };

static int make_images(void **state)
{
    return fixture_set_up(state, SAMPLES);
}

static void keys_follow_the_sampler_for_any_number_of_ranks(void **state)
{
    const struct fixture *fixture = *state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 8};
    for (size_t w = 0; w < sizeof ranks / sizeof ranks[0]; w++) {
        uint64_t once = 0, order = 0, seen = 0;
        struct cursor cursor;
        for (uint32_t rank = 0; rank < ranks[w]; rank++) {
            struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
            options.batching = (struct batching){.global = 32,
                                                 .micro = 4,
                                                 .rank = rank,
                                                 .ranks = ranks[w],
                                                 .interleaved = w % 2 == 1};
            options.epoch = 3;
            struct loader *loader;
            struct sampler *sampler;
            struct err err;
            const struct batch *batch;
            assert_ok(loader_open(&options, &loader, &err), &err);
            struct loader_shape shape = loader_shape(loader);
            assert_ok(sampler_open(&shape.order, &sampler, &err), &err);
            assert_int_equal(shape.steps, (SAMPLES + 31) / 32);
            for (uint64_t t = 0; t < shape.steps; t++) {
                for (uint64_t n = 0; n < batching_owned_count(&options.batching); n++) {
                    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
                    uint64_t micro = batching_owned_micro(&options.batching, n);
                    assert_int_equal(batch->step, t);
                    assert_int_equal(batch->micro, micro);
                    struct batching_positions positions =
                        batching_positions(&options.batching, options.order, SAMPLES, t, micro);
                    assert_int_equal(batch->items_count, positions.count);
                    for (uint32_t i = 0; i < batch->items_count; i++) {
                        uint64_t position = positions.first + i * positions.stride;
                        const struct batch_item *item = &batch->items[i];
                        uint64_t sample = sampler_at(sampler, 3, position).sample;
                        char key[32];
                        snprintf(key, sizeof key, "k%06d", (int)sample);
                        assert_int_equal(item->position, position);
                        assert_int_equal(item->ref.sample, sample);
                        assert_int_equal(item->key_bytes, strlen(key));
                        assert_memory_equal(item->key, key, item->key_bytes);
                        assert_int_equal(item->fields_count, 2);
                        assert_string_equal(item->fields[0].extension, "cls");
                        assert_int_equal(((const char *)item->fields[0].data)[0],
                                         '0' + (int)(sample % FIXTURE_CLASSES));
                    }
                    seen += batch->items_count;
                    loader_release(loader, batch);
                }
            }
            assert_int_equal(loader_next(loader, &batch, &err), LOADER_END);
            assert_int_equal(loader_next(loader, &batch, &err), LOADER_END);
            cursor = loader_cursor(loader);
            once += cursor.set_digest;
            order += cursor.sequence_digest;
            sampler_close(sampler);
            loader_close(loader);
        }
        uint64_t once_expected = 0, order_expected = 0;
        struct sampler *sampler;
        struct err err;
        assert_ok(sampler_open(&cursor.params, &sampler, &err), &err);
        for (uint64_t p = 0; p < SAMPLES; p++) {
            once_expected += digest_set_term(sampler_at(sampler, 3, p));
            order_expected += digest_sequence_term(3, p, sampler_at(sampler, 3, p));
        }
        sampler_close(sampler);
        assert_int_equal(seen, SAMPLES);
        assert_true(once == once_expected && order == order_expected);
        assert_int_equal(cursor.epoch, 4);
        assert_int_equal(cursor.position, 0);
    }
}

static void images_and_labels_match_the_pipeline(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct image_options image = {.width = 20, .height = 16, .crop = options.image.crop};
    struct image_pipeline *pipeline;
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint8_t expected[20 * 16 * 3];
    assert_ok(image_pipeline_open(&image, &pipeline, &err), &err);
    assert_ok(loader_open(&options, &loader, &err), &err);
    for (int n = 0; n < 5; n++) {
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        const struct batch_field *images = &batch->fields[0], *labels = &batch->fields[1];
        assert_string_equal(images->name, "image");
        assert_string_equal(labels->name, "label");
        assert_int_equal(images->shape[1], 16);
        assert_int_equal(images->stride_bytes[1], 60);
        for (uint32_t i = 0; i < batch->items_count; i++) {
            char path[TEST_PATH_BYTES_MAX];
            struct shard_field field;
            size_t bytes;
            uint64_t sample = batch->items[i].ref.sample;
            fixture_find_field(fixture, sample, "jpg", path, &field);
            unsigned char *shard = test_read_file(path, &bytes);
            struct image_key key = {.seed = options.seed, .epoch = 0, .sample = sample};
            assert_ok(image_pipeline_run(pipeline, shard + field.data_offset, field.size_bytes,
                                         path, key, expected, 60, &err),
                      &err);
            free(shard);
            assert_memory_equal((uint8_t *)images->data + i * images->stride_bytes[0], expected,
                                sizeof expected);
            assert_int_equal(((int32_t *)labels->data)[i], sample % FIXTURE_CLASSES);
        }
        loader_release(loader, batch);
    }
    loader_close(loader);
    image_pipeline_close(pipeline);
}

static void any_number_of_workers_gives_the_same_bytes(void **state)
{
    const struct fixture *fixture = *state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct delivery first = {0};
        for (unsigned workers = 1; workers <= 4; workers++) {
            struct loader_options options = fixture_loader_options(fixture, decode);
            options.epochs_max = 2;
            options.workers = workers;
            options.batches_ahead = workers == 3 ? 2 : 0;
            struct delivery delivered;
            struct loader_stats stats;
            consume_all(&options, &delivered, &stats, NULL);
            assert_int_equal(delivered.items, 2 * SAMPLES);
            assert_int_equal(stats.samples_count, 2 * SAMPLES);
            assert_true(stats.read_bytes > 0 && stats.reads_count > 0);
            if (workers == 1) {
                first = delivered;
                continue;
            }
            assert_string_equal(delivered.text, first.text);
            assert_true(delivered.hash == first.hash);
            delivery_free(&delivered);
        }
        delivery_free(&first);
    }
}

static void every_engine_and_cache_mode_gives_the_same_bytes(void **state)
{
    static const enum io_engine engines[] = {IO_ENGINE_THREADS, IO_ENGINE_URING};
    static const enum io_cache caches[] = {IO_CACHE_AUTO, IO_CACHE_ALL, IO_CACHE_NONE};
    struct loader_options options = fixture_loader_options(*state, LOADER_BYTES);
    struct delivery reference;
    consume_all(&options, &reference, NULL, NULL);
    for (size_t i = 0; i < 12; i++) {
        struct io_options io = {.engine = engines[i % 2], .cache = caches[i / 2 % 3]};
        struct delivery delivered;
        struct err err;
        const char *lack = engines_skip_reason(io.engine);
        if (lack)
            test_skip("%s", lack);
        options.single_pass = i >= 6;
        assert_ok(io_open("file:", &io, &options.io, &err), &err);
        consume_all(&options, &delivered, NULL, NULL);
        assert_string_equal(delivered.text, reference.text);
        assert_int_equal(delivered.hash, reference.hash);
        delivery_free(&delivered);
        io_close(options.io);
    }
    delivery_free(&reference);
}

/* Stops after several steps, opens a new loader at the cursor with one worker, and takes the
 * rest. */
static void resuming_at_any_cursor_delivers_the_rest(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.epochs_max = 2;
    options.drop_last = true;
    struct delivery whole;
    struct cursor whole_cursor;
    consume_all(&options, &whole, NULL, &whole_cursor);
    assert_int_equal(whole.items, 2 * 240);
    assert_int_equal(whole_cursor.epoch, 2);
    for (uint64_t steps = 1; steps < 20; steps += 3) {
        struct loader *loader;
        struct err err;
        struct delivery start = {0}, rest;
        assert_ok(loader_open(&options, &loader, &err), &err);
        consume(loader, &start, steps * 6);
        struct cursor cursor = loader_cursor(loader);
        loader_close(loader);
        assert_int_equal(cursor.epoch, steps / 10);
        assert_int_equal(cursor.position, steps % 10 * 24);
        struct loader_options again = options;
        again.epoch = cursor.epoch;
        again.position = cursor.position;
        again.set_digest = cursor.set_digest;
        again.sequence_digest = cursor.sequence_digest;
        again.epochs_max = 2 - cursor.epoch;
        again.workers = 1;
        struct cursor end;
        consume_all(&again, &rest, NULL, &end);
        assert_int_equal(start.bytes + rest.bytes, whole.bytes);
        assert_memory_equal(whole.text, start.text, start.bytes);
        assert_memory_equal(whole.text + start.bytes, rest.text, rest.bytes);
        assert_true(end.set_digest == whole_cursor.set_digest &&
                    end.sequence_digest == whole_cursor.sequence_digest);
        delivery_free(&start);
        delivery_free(&rest);
    }
    delivery_free(&whole);
}

static void cursor_counts_whole_steps_only(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct loader *loader;
    struct err err;
    struct delivery delivered = {0};
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_cursor(loader).position, 0);
    consume(loader, &delivered, 5);
    assert_int_equal(loader_cursor(loader).position, 0);
    assert_true(loader_cursor(loader).set_digest == 0);
    consume(loader, &delivered, 1);
    assert_int_equal(loader_cursor(loader).position, 24);
    assert_true(loader_cursor(loader).set_digest != 0);
    consume(loader, &delivered, 7);
    assert_int_equal(loader_cursor(loader).position, 48);
    loader_close(loader);
    delivery_free(&delivered);
}

static void a_run_covers_the_positions_from_start_to_positions_max(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.epochs_max = 0;
    options.position = 17;
    options.positions_max = 300;
    uint8_t seen[2][SAMPLES] = {{0}};
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        options.batching.ranks = 2;
        options.batching.rank = rank;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++)
                seen[batch->epoch][batch->items[i].position]++;
            loader_release(loader, batch);
        }
        struct cursor cursor = loader_cursor(loader);
        assert_int_equal(cursor.epoch, 1);
        assert_int_equal(cursor.position, 67);
        loader_close(loader);
    }
    for (int p = 0; p < SAMPLES; p++) {
        assert_int_equal(seen[0][p], p >= 17);
        assert_int_equal(seen[1][p], p < 67);
    }
}

static void tail_is_kept_or_dropped(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct delivery delivered;
    consume_all(&options, &delivered, NULL, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    /* the last step has all its micro-batches, but smaller ones */
    assert_int_equal(delivered.batches, 66);
    delivery_free(&delivered);
    options.drop_last = true;
    consume_all(&options, &delivered, NULL, NULL);
    assert_int_equal(delivered.items, 240);
    assert_int_equal(delivered.batches, 60);
    delivery_free(&delivered);
}

static void sequential_order_is_the_files_order(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.order = ORDER_SEQUENTIAL;
    options.batching = (struct batching){.global = 8, .micro = 8, .ranks = 1};
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t expected = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++)
            assert_int_equal(batch->items[i].ref.sample, expected++);
        loader_release(loader, batch);
    }
    assert_int_equal(expected, SAMPLES);
    /* adjacent samples are read together: far fewer reads than samples */
    assert_true(loader_stats(loader).reads_count <= 32 + 7);
    loader_close(loader);
}

static void wrong_options_are_refused_with_advice(void **state)
{
    const struct fixture *fixture = *state;
    struct loader *loader;
    struct err err;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.image.field = "png";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.expected, "one of cls, jpg");
    options.image.field = "png;webp";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.found, "png;webp");
    options.image.field = "png;jpg;";
    assert_ok(loader_open(&options, &loader, &err), &err);
    loader_close(loader);
    options = fixture_loader_options(fixture, LOADER_TOKENS);
    options.text.field = "jpg";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "the dataset is not text");
    options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.image.width = 0;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    options = fixture_loader_options(fixture, LOADER_BYTES);
    options.batching.micro = 5;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    options = fixture_loader_options(fixture, LOADER_BYTES);
    options.position = SAMPLES + 1;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    options = fixture_loader_options(fixture, LOADER_BYTES);
    options.batching = (struct batching){.global = 256, .micro = 4, .ranks = 1};
    options.drop_last = true;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_true(err.advice[0] != '\0');
    options = fixture_loader_options(fixture, LOADER_BYTES);
    options.dataset = "/nonexistent/dataset.json";
    assert_int_equal(loader_open(&options, &loader, &err), -ENOENT);
}

static void closing_early_leaks_nothing(void **state)
{
    const struct fixture *fixture = *state;
    for (int i = 0; i < 60; i++) {
        struct loader_options options =
            fixture_loader_options(fixture, (enum loader_decode)(i % 2));
        struct loader *loader;
        const struct batch *held[7];
        struct err err;
        int held_count = 0;
        options.epochs_max = 0;
        options.workers = 1 + (unsigned)i % 3;
        if (i % 4 == 0)
            options.io = NULL; /* the loader opens its own */
        assert_ok(loader_open(&options, &loader, &err), &err);
        /* otherwise it is closed while the first batches are being prepared */
        while (i % 5 == 1 && !loader_ready(loader))
            gate_pause();
        for (int k = 0; k < i % 7; k++) {
            assert_int_equal(loader_next(loader, &held[held_count++], &err), LOADER_BATCH);
            if (i % 3 == 0 && k < 4)
                loader_release(loader, held[--held_count]);
            else if (i % 3 == 0)
                break;
        }
        loader_close(loader);
        while (held_count > 0)
            loader_release(loader, held[--held_count]);
    }
}

/* Checks every window of every member: tokens [s * block, + block + 1) of the member. */
static void text_windows_cover_the_token_stream(void **state)
{
    (void)state;
    struct fixture fixture;
    static const struct {
        uint64_t tokens, member_tokens, block;
    } cases[] = {{300000, 65537, 256},
                 {300000, 65537, 1000},
                 {20001, 4097, 64},
                 {65537 * 2 - 1, 65537, 65536}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint64_t tokens = cases[c].tokens, member_tokens = cases[c].member_tokens,
                 block = cases[c].block;
        fixture_make_text(&fixture, tokens, member_tokens, 2);
        uint64_t windows = 0, stride = member_tokens - 1;
        for (uint64_t first = 0; first + 1 < tokens; first += stride)
            windows += (tokens - first < member_tokens ? tokens - first - 1 : stride) / block;
        for (int verify = 0; verify < 2; verify++) {
            struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
            options.text.block = (uint32_t)block;
            options.verify = verify;
            options.run = 0;
            struct loader *loader;
            const struct batch *batch;
            struct err err;
            assert_ok(loader_open(&options, &loader, &err), &err);
            assert_int_equal(loader_shape(loader).samples, windows);
            assert_int_equal(loader_shape(loader).vocabulary, 5000);
            uint64_t seen = 0, sum = 0;
            while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
                assert_int_equal(batch->fields[0].shape[1], block + 1);
                for (uint32_t i = 0; i < batch->items_count; i++) {
                    const struct batch_item *item = &batch->items[i];
                    const int32_t *window =
                        (const int32_t *)batch->fields[0].data + i * (block + 1);
                    uint64_t member = strtoull(item->key + strlen("text-"), NULL, 10);
                    uint64_t first = member * stride + (uint64_t)item->window * block;
                    for (uint64_t k = 0; k <= block; k += block > 1000 ? 97 : 1)
                        assert_int_equal(window[k], fixture_token(first + k));
                    seen++;
                    sum += first;
                }
                loader_release(loader, batch);
            }
            assert_int_equal(seen, windows);
            uint64_t sum_expected = 0;
            for (uint64_t first = 0; first + 1 < tokens; first += stride)
                for (uint64_t k = 0;
                     k < (tokens - first < member_tokens ? tokens - first - 1 : stride) / block;
                     k++)
                    sum_expected += first + k * block;
            assert_true(sum == sum_expected);
            loader_close(loader);
        }
        fixture_remove(&fixture);
    }
}

static void block_longer_than_a_member_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, 9000, 4097, 2);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct loader *loader;
    struct err err;
    options.text.block = 4097;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.found, "4097");
    options.text.block = 0;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_follow_the_sampler_for_any_number_of_ranks),
        cmocka_unit_test(images_and_labels_match_the_pipeline),
        cmocka_unit_test(any_number_of_workers_gives_the_same_bytes),
        cmocka_unit_test(every_engine_and_cache_mode_gives_the_same_bytes),
        cmocka_unit_test(resuming_at_any_cursor_delivers_the_rest),
        cmocka_unit_test(cursor_counts_whole_steps_only),
        cmocka_unit_test(a_run_covers_the_positions_from_start_to_positions_max),
        cmocka_unit_test(tail_is_kept_or_dropped),
        cmocka_unit_test(sequential_order_is_the_files_order),
        cmocka_unit_test(wrong_options_are_refused_with_advice),
        cmocka_unit_test(closing_early_leaks_nothing),
        cmocka_unit_test(text_windows_cover_the_token_stream),
        cmocka_unit_test(block_longer_than_a_member_is_refused),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
