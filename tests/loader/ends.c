/*
 * ends — tests the ends of epochs, resuming there, and epochs with fewer samples than ranks.
 */
#include "loader/state.h"
#include "tests/loader/fixture.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 24, MICRO = 4 };

/* Waits until this many micro-batches have been read and decoded since the loader was opened. */
static void wait_until_ready(struct loader *loader, uint64_t count)
{
    for (bool is_there = false; !is_there; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        is_there = loader->ready >= count;
        pthread_mutex_unlock(&loader->mutex);
    }
}

/* The first micro-batches of the next epoch are read before the consumer takes the last one of this
 * epoch. */
static void the_next_epoch_is_read_ahead(void **state)
{
    (void)state;
    enum { SAMPLES = 53, EPOCHS = 7, AHEAD = 4 };
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    for (int drop_last = 0; drop_last <= 1; drop_last++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        const uint64_t steps = drop_last ? SAMPLES / STEP : (SAMPLES + STEP - 1) / STEP;
        const uint64_t an_epoch = steps * STEP / MICRO;
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        uint64_t batches = 0, items = 0;
        options.drop_last = drop_last;
        options.epochs_max = EPOCHS;
        options.batches_ahead = AHEAD;
        assert_ok(loader_open(&options, &loader, &err), &err);
        int status;
        wait_until_ready(loader, AHEAD);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            assert_int_equal(batch->epoch, batches / an_epoch);
            assert_int_equal(batch->step, batches / (STEP / MICRO) % steps);
            assert_int_equal(batch->micro, batches % (STEP / MICRO));
            batches++;
            items += batch->items_count;
            loader_release(loader, batch);
            /* the last micro-batch of this epoch, and the next epoch's */
            if (batches % an_epoch == an_epoch - 1 && batches / an_epoch < EPOCHS - 1)
                wait_until_ready(loader, batches + AHEAD);
        }
        assert_ok(status, &err);
        assert_int_equal(batches, EPOCHS * an_epoch);
        assert_int_equal(items, EPOCHS * (drop_last ? steps * STEP : SAMPLES));
        loader_close(loader);
    }
    fixture_remove(&fixture);
}

/* The cursor is at the end of an epoch or at the start of the next; both continue identically. */
static void resuming_at_the_end_of_an_epoch_starts_the_next(void **state)
{
    (void)state;
    enum { SAMPLES = 53 };
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    for (int drop_last = 0; drop_last <= 1; drop_last++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        const uint64_t micros_per_step = STEP / MICRO,
                       steps = drop_last ? SAMPLES / STEP : (SAMPLES + STEP - 1) / STEP;
        struct delivery whole;
        struct cursor end;
        options.drop_last = drop_last;
        options.epochs_max = 3;
        consume_all(&options, &whole, NULL, &end);
        for (uint64_t taken = steps - 1; taken <= steps + 1; taken++) {
            struct loader *loader;
            struct delivery parts = {0};
            struct err err;
            assert_ok(loader_open(&options, &loader, &err), &err);
            consume(loader, &parts, taken * micros_per_step);
            struct cursor cursor = loader_cursor(loader);
            loader_close(loader); /* discards what it read ahead */
            struct loader_options rest = options;
            rest.epoch = cursor.epoch;
            rest.position = cursor.position;
            rest.set_digest = cursor.set_digest;
            rest.sequence_digest = cursor.sequence_digest;
            rest.epochs_max = 3 - cursor.epoch;
            assert_ok(loader_open(&rest, &loader, &err), &err);
            consume(loader, &parts, UINT64_MAX);
            assert_true(loader_cursor(loader).set_digest == end.set_digest &&
                        loader_cursor(loader).sequence_digest == end.sequence_digest);
            loader_close(loader);
            assert_string_equal(parts.text, whole.text);
            assert_true(parts.hash == whole.hash);
            delivery_free(&parts);
        }
        delivery_free(&whole);
    }
    fixture_remove(&fixture);
}

/* Two ranks stop after any number of micro-batches; three continue from their cursor, and the
 * digests are those of an uninterrupted run. */
static void resuming_in_the_middle_of_a_step_repeats_and_omits_nothing(void **state)
{
    (void)state;
    enum { SAMPLES = 53, TAKEN_MAX = 9 };
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    for (uint64_t taken = 0; taken <= TAKEN_MAX; taken++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        struct delivery whole, parts = {0};
        struct cursor end, middle = {0}, sum = {0};
        struct loader *loader;
        struct err err;
        options.order = taken % 2 ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
        options.epochs_max = 2;
        consume_all(&options, &whole, NULL, &end);
        options.batching.interleaved = true;
        options.batching.ranks = 2;
        for (uint32_t rank = 0; rank < 2; rank++) {
            options.batching.rank = rank;
            assert_ok(loader_open(&options, &loader, &err), &err);
            consume(loader, &parts, taken);
            struct cursor cursor = loader_cursor_in_step(loader);
            assert_int_equal(cursor.micros_done, 2 * (taken % (STEP / MICRO / 2)));
            assert_true(rank == 0 || (cursor.position == middle.position &&
                                      cursor.micros_done == middle.micros_done));
            middle.set_digest += cursor.set_digest;
            middle.sequence_digest += cursor.sequence_digest;
            middle.epoch = cursor.epoch;
            middle.position = cursor.position;
            middle.micros_done = cursor.micros_done;
            loader_close(loader);
        }
        options.batching.ranks = 3;
        options.epoch = middle.epoch;
        options.position = middle.position;
        options.micros_done = middle.micros_done;
        options.epochs_max = 2 - middle.epoch;
        for (uint32_t rank = 0; rank < 3; rank++) {
            options.batching.rank = rank;
            options.set_digest = rank == 0 ? middle.set_digest : 0;
            options.sequence_digest = rank == 0 ? middle.sequence_digest : 0;
            assert_ok(loader_open(&options, &loader, &err), &err);
            consume(loader, &parts, UINT64_MAX);
            sum.set_digest += loader_cursor(loader).set_digest;
            sum.sequence_digest += loader_cursor(loader).sequence_digest;
            loader_close(loader);
        }
        assert_true(sum.set_digest == end.set_digest && sum.sequence_digest == end.sequence_digest);
        assert_int_equal(parts.items, whole.items);
        delivery_free(&parts);
        delivery_free(&whole);
    }
    fixture_remove(&fixture);
}

/* Padding repeats the first samples of the epoch, is marked, and changes no digest. */
static void padding_fills_the_last_step_with_marked_samples(void **state)
{
    (void)state;
    enum { SAMPLES = 53, PIXELS_BYTES = 20 * 16 * 3, PADDED = (SAMPLES / STEP + 1) * STEP };
    static uint8_t pixels[PADDED][PIXELS_BYTES];
    struct fixture fixture;
    struct delivery kept;
    struct cursor end, sum = {0};
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    consume_all(&options, &kept, NULL, &end);
    delivery_free(&kept);
    options.pad_last = true;
    options.batching.ranks = 3;
    uint32_t padding = 0;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        int status;
        options.batching.rank = rank;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            const struct batch_field *images = batch_field_named(batch, "image"),
                                     *valid = batch_field_named(batch, "valid");
            assert_int_equal(batch->items_count, MICRO);
            assert_int_equal(valid->dtype, DTYPE_BOOL);
            for (uint32_t i = 0; i < MICRO; i++) {
                const struct batch_item *item = &batch->items[i];
                memcpy(pixels[item->position],
                       (const uint8_t *)images->data + i * images->stride_bytes[0], PIXELS_BYTES);
                assert_int_equal(item->is_padding, item->position >= SAMPLES);
                assert_int_equal(((const uint8_t *)valid->data)[i], !item->is_padding);
                padding += item->is_padding;
            }
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        sum.set_digest += loader_cursor(loader).set_digest;
        sum.sequence_digest += loader_cursor(loader).sequence_digest;
        loader_close(loader);
    }
    assert_int_equal(padding, PADDED - SAMPLES);
    for (uint32_t p = SAMPLES; p < PADDED; p++)
        assert_memory_equal(pixels[p], pixels[p - SAMPLES], PIXELS_BYTES);
    assert_true(sum.set_digest == end.set_digest && sum.sequence_digest == end.sequence_digest);
    options.drop_last = true;
    struct loader *loader;
    assert_int_equal(loader_open(&options, &loader, NULL), -EINVAL);
    fixture_remove(&fixture);
}

static void fewer_samples_than_ranks_end_the_epoch_on_every_rank(void **state)
{
    (void)state;
    enum { SAMPLES = 5, RANKS = 6 };
    struct fixture fixture;
    int seen[SAMPLES] = {0};
    fixture_make_default_images(&fixture, SAMPLES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        uint64_t batches = 0;
        options.batching.rank = rank;
        options.batching.ranks = RANKS;
        options.drop_last = false;
        assert_ok(loader_open(&options, &loader, &err), &err);
        int status;
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++)
                seen[batch->items[i].ref.sample]++;
            batches++;
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        assert_int_equal(batches, 1); /* even if it is empty, so that ranks stay in step */
        loader_close(loader);
    }
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], 1);
    fixture_remove(&fixture);
}

/* If the tail is dropped there is no step at all, which every rank reports. */
static void too_few_samples_for_a_step_do_not_hang(void **state)
{
    (void)state;
    struct fixture fixture;
    int first = 0;
    fixture_make_default_images(&fixture, 5);
    for (uint32_t rank = 0; rank < 6; rank++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        struct loader *loader = NULL;
        const struct batch *batch;
        struct err err = {0};
        options.batching.rank = rank;
        options.batching.ranks = 6;
        options.drop_last = true;
        options.epochs_max = 0;
        int status = loader_open(&options, &loader, &err);
        if (!status)
            status = loader_next(loader, &batch, &err);
        assert_true(status <= 0);
        assert_true(status == 0 || err.advice[0]);
        if (rank == 0)
            first = status;
        assert_int_equal(status, first);
        loader_close(loader);
    }
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_epoch_is_read_ahead),
        cmocka_unit_test(resuming_at_the_end_of_an_epoch_starts_the_next),
        cmocka_unit_test(resuming_in_the_middle_of_a_step_repeats_and_omits_nothing),
        cmocka_unit_test(padding_fills_the_last_step_with_marked_samples),
        cmocka_unit_test(fewer_samples_than_ranks_end_the_epoch_on_every_rank),
        cmocka_unit_test(too_few_samples_for_a_step_do_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
