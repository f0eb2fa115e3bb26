/*
 * memory — tests that the steady state allocates nothing, that nothing hangs, and that the limiting
 * stage is reported.
 */
#include "base/hash.h"
#include "loader/state.h"
#include "tests/loader/held_reads.h"
#include "tests/support/allocations.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- A counting engine on top of one that holds reads. ---- */

static const struct io_ops *inner_ops;
static struct io_ops counting_ops;
static atomic_int reads_seen, files_opened;
static atomic_uint_least64_t bytes_seen;
static atomic_bool first_is_held; /* holds the reads of the first micro-batch */
static struct io_request *held_back[LOADER_QUEUE_DEPTH];
static unsigned held_back_count; /* owned by the reader thread */

/* Holds back completions of the first micro-batch, or releases them; returns the number of
 * completions. */
static int hold_back_first_read(struct io_request **done, int reaped, unsigned count_max)
{
    unsigned count = 0;
    bool holds = first_is_held;
    for (int i = 0; i < reaped; i++) {
        const struct load_chunk *chunk = done[i]->user;
        const struct batch *batch = &chunk->first_waiting->slot->batch;
        bool is_first = batch->step == 0 && batch->micro == 0;
        if (holds && is_first)
            held_back[held_back_count++] = done[i];
        else
            done[count++] = done[i];
    }
    while (!holds && held_back_count > 0 && count < count_max)
        done[count++] = held_back[--held_back_count];
    return (int)count;
}

static int counting_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                         unsigned count_min, int timeout_ms)
{
    /* while reads are held back, nothing else may be in flight */
    bool waits_for_held = held_back_count > 0 && timeout_ms != IO_FOREVER;
    int reaped = waits_for_held ? inner_ops->reap(queue, done, count_max, 0, 0)
                                : inner_ops->reap(queue, done, count_max, count_min, timeout_ms);
    if (reaped >= 0 && timeout_ms != IO_FOREVER)
        reaped = hold_back_first_read(done, reaped, count_max);
    if (waits_for_held && reaped == 0)
        gate_pause();
    for (int i = 0; i < reaped; i++)
        if (done[i]->result > 0)
            atomic_fetch_add(&bytes_seen, (uint64_t)done[i]->result);
    if (reaped > 0)
        atomic_fetch_add(&reads_seen, reaped);
    return reaped;
}

static int counting_file_open(struct io *io, const char *path, struct io_file **ret_file,
                              struct err *err)
{
    atomic_fetch_add(&files_opened, 1);
    return inner_ops->file_open(io, path, ret_file, err);
}

static void intercept_io(struct fixture *fixture)
{
    held_reads_begin(fixture);
    inner_ops = fixture->io->ops;
    counting_ops = *inner_ops;
    counting_ops.reap = counting_reap;
    counting_ops.file_open = counting_file_open;
    fixture->io->ops = &counting_ops;
    reads_seen = files_opened = 0;
    bytes_seen = 0;
}

enum { SAMPLES = 400 };

static int make_images(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = 100;
    return fixture_set_up_with_options(state, &options);
}

static void steady_state_allocates_nothing(void **state)
{
    const struct fixture *fixture = *state;
    /* The fixture allocates; otherwise the count is broken. */
    assert_true(allocations_own_count() > 0);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = fixture_loader_options(fixture, decode);
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        size_t before = 0;
        options.epochs_max = 0;
        options.image.crop = crop_options_default(CROP_CENTER);
        assert_ok(loader_open(&options, &loader, &err), &err);
        for (int i = 0; i < 2200; i++) {
            /* scratch memory grows until every worker has decoded the largest picture, which takes
             * at most twenty epochs */
            if (i == 2000)
                before = allocations_own_count();
            assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
            loader_release(loader, batch);
        }
        assert_int_equal(allocations_own_count() - before, 0);
        loader_close(loader);
    }
}

/* Far more data than the arena holds passes through it, even if a micro-batch is larger than the
 * arena. */
static void micro_batches_larger_than_the_read_ahead_are_decoded_in_parts(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, test_is_sanitized() ? 300000 : 1500000, 65537, 4);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct delivery tight, wide;
    options.text.block = 512;
    options.batching = (struct batching){.global = 256, .micro = 64, .ranks = 1};
    options.lanes = 64;
    options.run = 1;
    options.memory_bytes = 3 << 20; /* 64 windows read up to 128 KiB each */
    consume_all(&options, &tight, NULL, NULL);
    options.memory_bytes = 256 << 20;
    consume_all(&options, &wide, NULL, NULL);
    assert_int_equal(tight.items, wide.items);
    assert_true(tight.hash == wide.hash);
    delivery_free(&tight);
    delivery_free(&wide);
    fixture_remove(&fixture);
}

static void a_consumer_that_holds_every_batch_gets_enobufs(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *held[4];
    struct err err;
    options.batches_ahead = 3;
    assert_ok(loader_open(&options, &loader, &err), &err);
    for (int i = 0; i < 3; i++)
        assert_int_equal(loader_next(loader, &held[i], &err), LOADER_BATCH);
    assert_int_equal(loader_next(loader, &held[3], &err), -ENOBUFS);
    loader_release(loader, held[0]);
    assert_int_equal(loader_next(loader, &held[3], &err), LOADER_BATCH);
    loader_close(loader);
    for (int i = 1; i < 4; i++)
        loader_release(loader, held[i]);
}

static void a_batch_held_for_too_long_is_reported(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct loader *loader;
    const struct batch *first, *batch;
    struct err err;
    options.batches_ahead = 3;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &first, &err), LOADER_BATCH);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        loader_release(loader, batch);
    }
    assert_int_equal(loader_next(loader, &batch, &err), -ENOBUFS);
    assert_non_null(strstr(err.what, "still holds the batch before the last 2"));
    loader_release(loader, first);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    loader_close(loader);
    loader_release(loader, batch);
}

/* Batches on their way from the consumer to the thread that releases them. */
struct handover {
    struct loader *loader;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct batch *held[5];
    uint32_t count;
    bool drains, ended; /* release all that are held, also the last */
    uint64_t sum;       /* of the positions and bytes of all batches, in any order */
};

static void add_to_sum(const struct batch *batch, uint64_t *sum)
{
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        uint64_t hash = item->position;
        for (uint32_t f = 0; f < item->fields_count; f++)
            hash = hash * 31 + hash_64(item->fields[f].data, item->fields[f].bytes);
        for (uint32_t f = 0; f < batch->fields_count; f++)
            hash = hash * 31 + hash_64((const uint8_t *)batch->fields[f].data +
                                           (int64_t)i * batch->fields[f].stride_bytes[0],
                                       (size_t)batch->fields[f].stride_bytes[0]);
        *sum += hash;
    }
}

/* Releases the held batches, last ones first. */
static void *release_main(void *argument)
{
    struct handover *handover = argument;
    pthread_mutex_lock(&handover->mutex);
    while (!handover->ended || handover->count > 0) {
        if (handover->count == 0 ||
            (handover->count < 3 && !handover->ended && !handover->drains)) {
            pthread_cond_wait(&handover->changed, &handover->mutex);
            continue;
        }
        const struct batch *batch = handover->held[--handover->count];
        pthread_mutex_unlock(&handover->mutex);
        add_to_sum(batch, &handover->sum);
        loader_release(handover->loader, batch);
        pthread_mutex_lock(&handover->mutex);
        pthread_cond_signal(&handover->changed);
    }
    pthread_mutex_unlock(&handover->mutex);
    return NULL;
}

static void another_thread_releases_batches_in_another_order(void **state)
{
    const struct fixture *fixture = *state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = fixture_loader_options(fixture, decode);
        struct handover handover = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                    .changed = PTHREAD_COND_INITIALIZER};
        const struct batch *batch;
        struct loader *loader;
        uint64_t expected = 0;
        pthread_t thread;
        struct err err;
        int status;
        options.epochs_max = 3;
        options.batches_ahead = 8;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            add_to_sum(batch, &expected);
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        loader_close(loader);
        assert_ok(loader_open(&options, &handover.loader, &err), &err);
        assert_int_equal(pthread_create(&thread, NULL, release_main, &handover), 0);
        do {
            status = loader_next(handover.loader, &batch, &err);
            pthread_mutex_lock(&handover.mutex);
            if (status == -ENOBUFS) { /* an earlier batch is still held */
                handover.drains = true;
                pthread_cond_signal(&handover.changed);
                while (handover.count > 0)
                    pthread_cond_wait(&handover.changed, &handover.mutex);
                handover.drains = false;
            } else if (status == LOADER_BATCH) {
                while (handover.count == 5)
                    pthread_cond_wait(&handover.changed, &handover.mutex);
                handover.held[handover.count++] = batch;
            } else {
                handover.ended = true;
            }
            pthread_cond_signal(&handover.changed);
            pthread_mutex_unlock(&handover.mutex);
        } while (status == LOADER_BATCH || status == -ENOBUFS);
        assert_ok(status, &err);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(handover.sum == expected);
        loader_close(handover.loader);
    }
}

/* The error lasts until a batch is released. */
static void a_consumer_that_holds_the_read_ahead_is_reported(void **state)
{
    (void)state;
    enum { HELD_SAMPLES = 64 };
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(HELD_SAMPLES);
    fixture_options.pad_bytes = 100000;
    fixture_make_images(&fixture, &fixture_options);
    fixture_set_listed_mean_bytes(&fixture, 1000); /* so that the loader plans for many samples */
    struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
    struct loader *loader;
    const struct batch *held[HELD_SAMPLES];
    struct err err;
    int first = 0, next = 0, status, errors = 0;
    uint64_t items = 0;
    options.epochs_max = 1;
    options.memory_bytes = 3 << 20; /* a read-ahead of 1 MiB: about 10 samples */
    assert_ok(loader_open(&options, &loader, &err), &err);
    while ((status = loader_next(loader, &held[next], &err)) != LOADER_END) {
        if (status == LOADER_BATCH) {
            items += held[next++]->items_count;
            continue;
        }
        assert_int_equal(status, -ENOBUFS);
        assert_non_null(strstr(err.what, "held by the consumer"));
        assert_true(next - first >= 2);
        assert_false(loader_ready(loader));
        assert_int_equal(loader_next(loader, &held[next], NULL), -ENOBUFS);
        errors++;
        if (errors % 2)
            loader_release(loader, held[first++]);
        while (errors % 2 == 0 && first < next)
            loader_release(loader, held[first++]);
    }
    assert_true(errors > 2);
    assert_int_equal(items, HELD_SAMPLES);
    loader_close(loader);
    while (first < next)
        loader_release(loader, held[first++]);
    fixture_remove(&fixture);
}

static void stats_name_a_stalled_consumer(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    options.batches_ahead = 3;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    while (loader_stats(loader).limit != LOADER_STAGE_CONSUMER ||
           loader_stats(loader).stage_ns[LOADER_STAGE_CONSUMER] == 0)
        gate_pause();
    assert_int_equal(loader_stats(loader).ahead_count, 2); /* the consumer holds one more */
    loader_close(loader);
    loader_release(loader, batch);
}

/* Releases the first micro-batch when the consumer waits for it and the others are ready. */
static void *release_first_when_others_are_ready(void *argument)
{
    struct loader *loader = argument;
    for (bool others_are = false; !others_are; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        others_are = loader->consumer.is_waiting && loader->reader.state == READER_NO_SLOT &&
                     loader->ready + 1 == loader->planned;
        pthread_mutex_unlock(&loader->mutex);
    }
    first_is_held = false;
    return NULL;
}

static void a_consumer_that_does_not_return_for_the_last_batch_is_reported(void **state)
{
    struct fixture *fixture = *state;
    /* pictures, so that the reader finishes before the workers */
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    pthread_t helper;
    options.batches_ahead = 3;
    intercept_io(fixture);
    first_is_held = true;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(pthread_create(&helper, NULL, release_first_when_others_are_ready, loader), 0);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    pthread_join(helper, NULL);
    uint64_t before = loader_stats(loader).stage_ns[LOADER_STAGE_CONSUMER];
    while (loader_stats(loader).stage_ns[LOADER_STAGE_CONSUMER] == before)
        gate_pause();
    loader_close(loader);
    loader_release(loader, batch);
    held_reads_end(fixture);
}

static void waiting_for_reads_is_reported(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    pthread_t helper;
    intercept_io(fixture);
    held_reads_set(true);
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(pthread_create(&helper, NULL, held_reads_release_when_consumer_waits, loader),
                     0);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    pthread_join(helper, NULL);
    struct loader_stats stats = loader_stats(loader);
    assert_true(stats.stage_ns[LOADER_STAGE_READ] > 0);
    assert_int_equal(stats.stage_ns[LOADER_STAGE_READ] + stats.stage_ns[LOADER_STAGE_DECODE],
                     stats.wait_ns);
    loader_close(loader);
    loader_release(loader, batch);
    held_reads_end(fixture);
}

/* Closes before the first batch, and after several. */
static void closing_does_not_wait_for_stuck_reads(void **state)
{
    struct fixture *fixture = *state;
    /* so that samples don't share reads, and each batch needs some */
    fixture_set_listed_mean_bytes(fixture, ORDER_RUN_BYTES);
    for (int taken = 0; taken < 10; taken++) {
        struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        options.batches_ahead = 3;
        intercept_io(fixture);
        held_reads_set(taken == 0);
        assert_ok(loader_open(&options, &loader, &err), &err);
        for (int i = 0; i < taken; i++) {
            assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
            if (i + 1 < taken)
                loader_release(loader, batch);
        }
        held_reads_set(true);
        /* so that the loader reads one more batch */
        if (taken > 0)
            loader_release(loader, batch);
        held_reads_wait();
        loader_close(loader);
        held_reads_set(false);
        held_reads_end(fixture);
    }
}

/* The total size of the fields from which the delivered pictures were decoded. */
static uint64_t sum_field_bytes(const struct fixture *fixture, const char *delivered)
{
    uint64_t sum = 0;
    for (const char *line = delivered; *line; line = strchr(line, '\n') + 1) {
        char path[TEST_PATH_BYTES_MAX];
        struct shard_field field;
        int sample;
        assert_int_equal(sscanf(line, "%*u %*d %*d %*d %d", &sample), 1);
        fixture_find_field(fixture, (uint64_t)sample, "jpg", path, &field);
        sum += field.size_bytes;
        fixture_find_field(fixture, (uint64_t)sample, "cls", path, &field);
        sum += field.size_bytes;
    }
    return sum;
}

/* A third, unused field is so large that samples are not read together. */
static void starting_mid_epoch_reads_only_what_is_delivered(void **state)
{
    (void)state;
    enum { STEP = 24, PIECES = 2, SHARDS = 4 };
    enum { HEADERS_BYTES = 2 * 512, PAGES_BYTES = 2 * 4096, LIST_BYTES = 4096 /* dataset.json */ };
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.samples_per_shard = SAMPLES / SHARDS;
    fixture_options.pad_bytes = IO_GAP_BYTES_DEFAULT + PAGES_BYTES;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct delivery delivered;
    struct loader_stats stats;
    options.position = 240;
    options.epoch = 5;
    options.epochs_max = 0;
    options.positions_max = STEP;
    intercept_io(&fixture);
    consume_all(&options, &delivered, &stats, NULL);
    held_reads_end(&fixture);
    assert_int_equal(delivered.items, STEP);
    assert_int_equal(strncmp(delivered.text, "5 10 0 240 ", 11), 0);
    assert_in_range(stats.reads_count, 1, STEP * PIECES);
    assert_in_range(reads_seen, stats.reads_count, STEP * PIECES + SHARDS * 2 + 1);
    assert_in_range(files_opened, 1, SHARDS + 1); /* including dataset.json */
    uint64_t wanted = sum_field_bytes(&fixture, delivered.text);
    assert_in_range(stats.read_bytes, wanted, wanted + STEP * (HEADERS_BYTES + PAGES_BYTES));
    assert_in_range(bytes_seen, stats.read_bytes,
                    stats.read_bytes + SHARDS * SHARD_TAIL_BYTES + LIST_BYTES);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

static int read_text_from_middle(struct fixture *fixture, struct delivery *delivered,
                                 bool lengths_are_listed)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_TOKENS);
    /* lists of older versions lack last_tokens */
    if (!lengths_are_listed)
        assert_int_equal(
            test_run("chmod u+w '%s/dataset.json' && sed -i 's/,\"last_tokens\":[0-9]*//' "
                     "'%s/dataset.json'",
                     fixture->folder, fixture->folder),
            0);
    intercept_io(fixture);
    options.order = ORDER_SEQUENTIAL;
    options.positions_max = 24;
    options.position = 240;
    consume_all(&options, delivered, NULL, NULL);
    held_reads_end(fixture);
    return files_opened;
}

static void starting_mid_text_opens_only_the_needed_shards(void **state)
{
    (void)state;
    enum { SHARDS = 20 };
    struct fixture fixture;
    struct delivery listed, counted;
    fixture_make_text(&fixture, SHARDS * 8 * 1000 - 300, 1001, 8);
    int opened_listed = read_text_from_middle(&fixture, &listed, true),
        opened_counted = read_text_from_middle(&fixture, &counted, false);
    assert_in_range(opened_listed, 2, 3); /* dataset.json, a shard or two */
    assert_in_range(opened_counted, SHARDS + 1, SHARDS + 3);
    assert_int_equal(listed.items, 24);
    assert_true(listed.hash == counted.hash);
    assert_string_equal(listed.text, counted.text);
    delivery_free(&listed);
    delivery_free(&counted);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(micro_batches_larger_than_the_read_ahead_are_decoded_in_parts),
        cmocka_unit_test(a_consumer_that_holds_every_batch_gets_enobufs),
        cmocka_unit_test(a_batch_held_for_too_long_is_reported),
        cmocka_unit_test(another_thread_releases_batches_in_another_order),
        cmocka_unit_test(a_consumer_that_holds_the_read_ahead_is_reported),
        cmocka_unit_test(stats_name_a_stalled_consumer),
        cmocka_unit_test(a_consumer_that_does_not_return_for_the_last_batch_is_reported),
        cmocka_unit_test(waiting_for_reads_is_reported),
        cmocka_unit_test(closing_does_not_wait_for_stuck_reads),
        cmocka_unit_test(starting_mid_epoch_reads_only_what_is_delivered),
        cmocka_unit_test(starting_mid_text_opens_only_the_needed_shards),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
