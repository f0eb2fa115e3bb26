/*
 * held_fields — tests fields that outlive their batch, and batches that outlive their loader.
 */
#include "base/hash.h"
#include "loader/state.h"
#include "tests/loader/fixture.h"
#include "tests/loader/late_device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The last of 5 steps has 4 samples in 6 micro-batches: two of them are empty. */
enum { SAMPLES = 100, BATCHES = 30, SUBSTITUTED = 13 };

static int make_images(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = 25;
    return fixture_set_up_with_options(state, &options);
}

static uint64_t field_bytes(const struct batch_field *field)
{
    return (uint64_t)field->stride_bytes[0] * field->shape[0];
}

static uint64_t hash_field(const struct batch_field *field)
{
    return hash_64(field->data, field_bytes(field));
}

/* The hash of all that the batch contains. */
static uint64_t hash_batch(const struct batch *batch)
{
    struct delivery delivered = {0};
    delivery_add(&delivered, batch);
    uint64_t hash = delivered.hash ^ hash_64(delivered.text, delivered.bytes);
    delivery_free(&delivered);
    return hash;
}

static const struct batch *next_batch(struct loader *loader)
{
    const struct batch *batch;
    struct err err;
    int status = loader_next(loader, &batch, &err);
    assert_true(status >= 0 || err.what[0]);
    assert_int_equal(status, LOADER_BATCH);
    return batch;
}

/* ---- Fields that are kept. ---- */

/* Keeps one field of every batch: only memory of its kind is allocated beyond the budget. */
static void kept_fields_survive_while_the_others_are_reused(void **state)
{
    static const char *const names[] = {"label", "image"};
    for (int kept = 0; kept < 2; kept++) {
        struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
        struct batch_field fields[BATCHES];
        uint64_t hashes[BATCHES];
        const void *others[BATCHES];
        const struct batch *batch;
        struct loader *loader;
        struct err err;
        int status, count = 0, others_count = 0, i;
        options.batches_ahead = 4;
        options.keep = LOADER_KEEP_GROW;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            const void *other = batch_field_named(batch, names[1 - kept])->data;
            assert_true(count < BATCHES);
            fields[count] = *batch_field_named(batch, names[kept]);
            hashes[count] = hash_field(&fields[count]);
            fields[count].memory = batch_field_retain(&fields[count]);
            assert_non_null(fields[count].memory);
            count++;
            for (i = 0; i < others_count && others[i] != other; i++)
                ;
            if (i == others_count)
                others[others_count++] = other;
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        assert_in_range(others_count, 1, options.batches_ahead);
        loader_close(loader);
        for (i = 0; i < count; i++) {
            assert_true(hash_field(&fields[i]) == hashes[i]);
            batch_memory_release(fields[i].memory);
        }
    }
}

/* ---- What is released after loader_close. ---- */

enum { HELD_MAX = 7, REFERENCES_MAX = HELD_MAX * 6, RELEASERS = 3 };

/* Of a batch, or of a field's memory. */
struct reference {
    const struct batch *batch;
    struct batch_field field;
    uint64_t hash;
};

struct releaser {
    struct loader *loader;
    struct reference references[REFERENCES_MAX];
    uint32_t count;
    uint32_t changed_count;
    pthread_t thread;
};

static void *release_main(void *argument)
{
    struct releaser *releaser = argument;
    for (uint32_t i = 0; i < releaser->count; i++) {
        struct reference *reference = &releaser->references[i];
        uint64_t hash =
            reference->batch ? hash_batch(reference->batch) : hash_field(&reference->field);
        releaser->changed_count += hash != reference->hash;
        if (reference->batch)
            loader_release(releaser->loader, reference->batch);
        else
            batch_memory_release(reference->field.memory);
    }
    return NULL;
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*seed >> 33);
}

static uint32_t collect_references(struct loader *loader, uint64_t *seed,
                                   struct reference *references)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        const struct batch *batch = next_batch(loader);
        const struct reference whole = {.batch = batch, .hash = hash_batch(batch)};
        references[count++] = whole;
        for (uint32_t k = 0; k < batch->fields_count && k < 4; k++) {
            const struct batch_field *field = &batch->fields[k];
            if (next_random(seed) % 2 == 0)
                continue;
            references[count] = (struct reference){.field = *field, .hash = hash_field(field)};
            references[count++].field.memory = batch_field_retain(field);
        }
        if (next_random(seed) % 3 == 0) {
            loader_retain(loader, batch);
            references[count++] = whole;
        }
    }
    return count;
}

/* Deals the references to the threads in random order. */
static void deal_references(struct reference *references, uint32_t count, uint64_t *seed,
                            struct releaser releasers[RELEASERS])
{
    for (; count > 0; count--) {
        uint32_t i = next_random(seed) % count;
        struct releaser *releaser = &releasers[next_random(seed) % RELEASERS];
        releaser->references[releaser->count++] = references[i];
        references[i] = references[count - 1];
    }
}

/* Releases after loader_close, or at the same time. */
static void release_from_other_threads(const struct loader_options *options, uint64_t seed,
                                       bool at_once)
{
    struct reference references[REFERENCES_MAX];
    struct releaser releasers[RELEASERS] = {{0}};
    struct loader *loader;
    struct err err;
    assert_ok(loader_open(options, &loader, &err), &err);
    uint32_t count = collect_references(loader, &seed, references);
    deal_references(references, count, &seed, releasers);
    if (!at_once)
        loader_close(loader);
    for (int i = 0; i < RELEASERS; i++) {
        releasers[i].loader = loader;
        assert_int_equal(pthread_create(&releasers[i].thread, NULL, release_main, &releasers[i]),
                         0);
    }
    if (at_once)
        loader_close(loader);
    for (int i = 0; i < RELEASERS; i++) {
        pthread_join(releasers[i].thread, NULL);
        assert_int_equal(releasers[i].changed_count, 0);
    }
}

/* A sanitizer detects leaks of a loader with its own device. */
static void other_threads_release_in_any_order(void **state)
{
    (void)state;
    enum { ROUNDS = 12 };
    static const struct loader_field more[] = {
        {.name = "file", .from = "jpg", .decode = LOADER_FIELD_BYTES},
        {.name = "class", .from = "cls", .decode = LOADER_FIELD_STR}};
    struct fixture fixture;
    struct device *device;
    late_device_open(&device);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_RECORD; decode++) {
        if (decode == LOADER_TOKENS)
            fixture_make_text(&fixture, 60000, 4097, 2);
        else
            fixture_make_default_images(&fixture, SAMPLES);
        if (decode != LOADER_TOKENS)
            fixture_flip_in_field(&fixture, SUBSTITUTED, "jpg", 200);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            struct loader_options options = fixture_loader_options(&fixture, decode);
            options.batches_ahead = HELD_MAX + 1;
            options.epochs_max = 0;
            options.bad_fraction_max = 1;
            options.pad_last = decode != LOADER_BYTES;
            if (decode == LOADER_RECORD || (decode == LOADER_IMAGE && round % 3 == 0)) {
                options.fields = more;
                options.fields_count = 2;
            }
            options.device = round % 2 ? device : NULL;
            print_message("seed %" PRIu64 "\n", round);
            release_from_other_threads(&options, round, round % 4 >= 2);
            assert_int_equal(late_device_used_bytes(device), 0);
        }
        fixture_remove(&fixture);
    }
    device_close(device);
}

/* Also a substitute's bytes. */
static void a_batch_of_bytes_outlives_its_loader(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    fixture_flip_in_field(&fixture, SUBSTITUTED, "jpg", 200);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
    struct delivery before = {0}, after = {0};
    const struct batch *held[HELD_MAX];
    struct loader *loader;
    struct err err;
    uint32_t substitutes = 0;
    options.order = ORDER_SEQUENTIAL;
    options.batches_ahead = HELD_MAX;
    options.io = NULL; /* the loader's own */
    assert_ok(loader_open(&options, &loader, &err), &err);
    for (int i = 0; i < HELD_MAX; i++) {
        held[i] = next_batch(loader);
        delivery_add(&before, held[i]);
        for (uint32_t k = 0; k < held[i]->items_count; k++)
            substitutes += held[i]->items[k].substituted;
    }
    assert_int_equal(substitutes, 1);
    loader_close(loader);
    fixture_remove(&fixture);
    for (int i = 0; i < HELD_MAX; i++)
        delivery_add(&after, held[i]);
    assert_string_equal(before.text, after.text);
    assert_true(before.hash == after.hash);
    for (int i = 0; i < HELD_MAX; i++)
        loader_release(loader, held[i]);
    delivery_free(&before);
    delivery_free(&after);
}

static void a_retained_batch_needs_two_releases(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    const struct batch *batch, *other;
    struct loader *loader;
    struct device *device;
    struct err err;
    late_device_open(&device);
    options.device = device;
    options.batches_ahead = 2;
    assert_ok(loader_open(&options, &loader, &err), &err);
    batch = next_batch(loader);
    uint64_t hash = hash_batch(batch);
    loader_retain(loader, batch);
    loader_release(loader, batch);
    loader_release(loader, next_batch(loader));
    assert_int_equal(loader_next(loader, &other, &err), -ENOBUFS);
    assert_true(hash_batch(batch) == hash);
    loader_release(loader, batch);
    batch = next_batch(loader);
    hash = hash_batch(batch);
    loader_retain(loader, batch);
    loader_close(loader);
    loader_release(loader, batch);
    assert_true(hash_batch(batch) == hash);
    assert_true(late_device_used_bytes(device) > 0);
    loader_release(loader, batch);
    assert_int_equal(late_device_used_bytes(device), 0);
    device_close(device);
}

/* ---- A caller that keeps all. ---- */

/* Each error ends with the next release. */
static void keeping_all_fields_gives_enobufs(void **state)
{
    static const char *const names[] = {"label", "image"};
    for (uint32_t i = 0; i < 8; i++) {
        struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
        struct batch_memory *kept[BATCHES];
        uint32_t first = 0, next = 0, items = 0, errors = 0;
        const struct batch *batch;
        struct loader *loader;
        struct err err;
        int status;
        options.batches_ahead = 2 + i % 4;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) != LOADER_END) {
            if (status == LOADER_BATCH) {
                assert_true(next < BATCHES);
                items += batch->items_count;
                kept[next++] = batch_field_retain(batch_field_named(batch, names[i / 4]));
                loader_release(loader, batch);
                continue;
            }
            assert_int_equal(status, -ENOBUFS);
            assert_non_null(strstr(err.what, "kept by the caller"));
            assert_int_equal(next - first, options.batches_ahead);
            assert_false(loader_ready(loader));
            assert_int_equal(loader_next(loader, &batch, NULL), -ENOBUFS);
            errors++;
            batch_memory_release(kept[first++]);
        }
        assert_int_equal(items, SAMPLES);
        assert_in_range(errors, BATCHES - options.batches_ahead,
                        BATCHES - options.batches_ahead + 1);
        loader_close(loader);
        while (first < next)
            batch_memory_release(kept[first++]);
    }
}

struct growth_lines {
    uint32_t count;
    double kib[8]; /* beyond the budget, named by each line */
};

static void note_line(void *context, enum log_level level, const char *line)
{
    struct growth_lines *lines = context;
    const char *size = strstr(line, "the loader uses ");
    char unit[4];
    assert_int_equal(level, LOG_WARN);
    assert_non_null(size);
    assert_non_null(strstr(line, "beyond its memory budget"));
    assert_true(lines->count < 8);
    assert_int_equal(sscanf(size, "the loader uses %lf %3s", &lines->kib[lines->count], unit), 2);
    lines->kib[lines->count++] *= unit[0] == 'M' ? 1024 : unit[0] == 'B' ? 1. / 1024 : 1;
}

/* Takes all batches, and keeps every one's fields if told to. */
static void consume_growing(const struct loader_options *options, bool keeps,
                            struct delivery *delivered)
{
    struct batch_field kept[BATCHES][2];
    uint64_t hashes[BATCHES][2];
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    int status, count = 0;
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        delivery_add(delivered, batch);
        assert_true(count < BATCHES);
        for (int k = 0; k < 2; k++) {
            kept[count][k] = batch->fields[k];
            hashes[count][k] = hash_field(&batch->fields[k]);
            kept[count][k].memory = keeps ? batch_field_retain(&batch->fields[k]) : NULL;
        }
        loader_release(loader, batch);
        count++;
    }
    assert_ok(status, &err);
    loader_close(loader);
    for (int i = 0; keeps && i < count; i++)
        for (int k = 0; k < 2; k++) {
            assert_true(hash_field(&kept[i][k]) == hashes[i][k]);
            batch_memory_release(kept[i][k].memory);
        }
}

static void keeping_all_fields_grows_the_loader(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery expected, delivered = {0}, released = {0};
    struct growth_lines lines = {0};
    const struct log log = {.write = note_line, .context = &lines};
    struct device *device;
    late_device_open(&device);
    consume_all(&options, &expected, NULL, NULL);
    options.keep = LOADER_KEEP_GROW;
    options.device = device;
    options.log = &log;
    options.batches_ahead = 4;
    consume_growing(&options, false, &released);
    assert_int_equal(lines.count, 0);
    consume_growing(&options, true, &delivered);
    assert_int_equal(late_device_used_bytes(device), 0);
    assert_string_equal(delivered.text, expected.text);
    assert_true(delivered.hash == expected.hash && released.hash == expected.hash);
    assert_in_range(lines.count, 3, 5);
    for (uint32_t i = 1; i < lines.count; i++)
        assert_true(lines.kib[i] >= 1.9 * lines.kib[i - 1]); /* the text is rounded */
    delivery_free(&expected);
    delivery_free(&delivered);
    delivery_free(&released);
    device_close(device);
}

/* ---- Streams. ---- */

static void memory_is_not_written_before_its_last_use_ends(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery expected, delivered = {0};
    struct device_stream *streams[2];
    struct loader *loader;
    struct device *device;
    struct err err;
    consume_all(&options, &expected, NULL, NULL);
    late_device_open(&device);
    for (int i = 0; i < 2; i++)
        assert_ok(device->ops->stream_open(device, &streams[i], &err), &err);
    options.device = device;
    options.batches_ahead = 2;
    assert_ok(loader_open(&options, &loader, &err), &err);
    const struct batch *batch = next_batch(loader);
    struct batch_field images = *batch_field_named(batch, "image");
    uint64_t hash = hash_field(&images);
    delivery_add(&delivered, batch);
    for (int i = 0; i < 2; i++)
        assert_ok(batch_memory_record_stream(images.memory, streams[i], &err), &err);
    /* the second use includes the first */
    assert_int_equal(late_device_opened_events, 1);
    assert_int_equal(late_device_recorded_events, 2);
    assert_int_equal(late_device_ordered_streams, 1);
    while (!loader_ready(loader)) /* the next batch has other memory */
        gate_pause();
    gate_shut(&late_device_gate);
    loader_release(loader, batch);
    batch = next_batch(loader);
    delivery_add(&delivered, batch);
    loader_release(loader, batch);
    gate_wait_for_threads(&late_device_gate, 1);
    assert_true(hash_field(&images) == hash);
    gate_open(&late_device_gate);
    consume(loader, &delivered, UINT64_MAX);
    assert_true(delivered.hash == expected.hash);
    loader_close(loader);
    for (int i = 0; i < 2; i++)
        device->ops->stream_close(device, streams[i]);
    assert_int_equal(late_device_used_bytes(device), 0);
    device_close(device);
    delivery_free(&expected);
    delivery_free(&delivered);
}

static void *release_memory(void *memory)
{
    batch_memory_release(memory);
    return NULL;
}

static void memory_is_not_freed_before_its_last_use_ends(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct device_stream *stream;
    struct loader *loader;
    struct device *device;
    struct err err;
    pthread_t thread;
    late_device_open(&device);
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    options.device = device;
    assert_ok(loader_open(&options, &loader, &err), &err);
    const struct batch *batch = next_batch(loader);
    struct batch_memory *memory = batch_field_retain(batch_field_named(batch, "image"));
    loader_release(loader, batch);
    loader_close(loader);
    assert_ok(batch_memory_record_stream(memory, stream, &err), &err);
    uint64_t used_bytes = late_device_used_bytes(device);
    assert_true(used_bytes > 0);
    gate_shut(&late_device_gate);
    assert_int_equal(pthread_create(&thread, NULL, release_memory, memory), 0);
    gate_wait_for_threads(&late_device_gate, 1);
    assert_int_equal(late_device_used_bytes(device), used_bytes);
    gate_open(&late_device_gate);
    pthread_join(thread, NULL);
    assert_int_equal(late_device_used_bytes(device), 0);
    device->ops->stream_close(device, stream);
    device_close(device);
}

/* Includes batches without items. */
static void every_field_can_be_recorded_on_a_cpu_stream(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery expected, delivered = {0};
    struct device_stream *stream;
    const struct batch *batch;
    struct loader *loader;
    struct device *device;
    struct err err;
    int status, empty = 0;
    assert_ok(device_open("cpu", &device, &err), &err);
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    consume_all(&options, &expected, NULL, NULL);
    options.device = device;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_ok(batch_memory_record_stream(NULL, stream, &err), &err);
    batch_memory_release(NULL);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        empty += batch->items_count == 0;
        delivery_add(&delivered, batch);
        for (uint32_t k = 0; k < batch->fields_count; k++) {
            struct batch_memory *memory = batch_field_retain(&batch->fields[k]);
            assert_ok(batch_memory_record_stream(memory, stream, &err), &err);
            batch_memory_release(memory);
        }
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    assert_int_equal(empty, 2);
    assert_true(delivered.hash == expected.hash);
    loader_close(loader);
    device->ops->stream_close(device, stream);
    device_close(device);
    delivery_free(&expected);
    delivery_free(&delivered);
}

/* ---- A caller that writes. ---- */

static void overwrite(const struct batch *batch)
{
    for (uint32_t k = 0; k < batch->fields_count; k++)
        memset(batch->fields[k].data, 0xa5, field_bytes(&batch->fields[k]));
}

/* Compares batches of a caller that overwrites the one that it holds, while it takes the next, with
 * those of one that does not. */
static void assert_writing_changes_nothing(struct loader_options options)
{
    struct delivery expected, delivered = {0};
    const struct batch *batch, *held = NULL;
    struct loader *loader;
    struct err err;
    uint64_t valid_count = 0, padding_count = 0;
    int status;
    options.epochs_max = 2;
    options.pad_last = true;
    options.batches_ahead = 4;
    consume_all(&options, &expected, NULL, NULL);
    assert_ok(loader_open(&options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        const struct batch_field *valid = batch_field_named(batch, "valid");
        for (uint32_t i = 0; i < batch->items_count; i++) {
            assert_int_equal(((const uint8_t *)valid->data)[i], !batch->items[i].is_padding);
            padding_count += batch->items[i].is_padding;
            valid_count += !batch->items[i].is_padding;
        }
        delivery_add(&delivered, batch);
        overwrite(batch);
        if (held)
            loader_release(loader, held);
        held = batch;
    }
    assert_ok(status, &err);
    assert_true(padding_count > 0);
    assert_int_equal(valid_count, 2 * loader_shape(loader).samples);
    loader_close(loader);
    overwrite(held);
    loader_release(loader, held);
    assert_true(delivered.hash == expected.hash);
    assert_string_equal(delivered.text, expected.text);
    delivery_free(&expected);
    delivery_free(&delivered);
}

static void writing_into_a_batch_changes_no_other(void **state)
{
    struct fixture text;
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    assert_writing_changes_nothing(options);
    options.image.mixup.mixup_alpha = options.image.mixup.cutmix_alpha = 1;
    options.image.mixup.probability = options.image.mixup.switch_probability = 0.5;
    assert_writing_changes_nothing(options);
    fixture_make_text(&text, 60000, 4097, 2);
    assert_writing_changes_nothing(fixture_loader_options(&text, LOADER_TOKENS));
    fixture_remove(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_fields_survive_while_the_others_are_reused),
        cmocka_unit_test(other_threads_release_in_any_order),
        cmocka_unit_test(a_batch_of_bytes_outlives_its_loader),
        cmocka_unit_test(a_retained_batch_needs_two_releases),
        cmocka_unit_test(keeping_all_fields_gives_enobufs),
        cmocka_unit_test(keeping_all_fields_grows_the_loader),
        cmocka_unit_test(memory_is_not_written_before_its_last_use_ends),
        cmocka_unit_test(memory_is_not_freed_before_its_last_use_ends),
        cmocka_unit_test(every_field_can_be_recorded_on_a_cpu_stream),
        cmocka_unit_test(writing_into_a_batch_changes_no_other),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
