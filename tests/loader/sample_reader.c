/*
 * sample_reader — tests that single samples have the bits of a loader's batches, cost one read, and
 * can be read by many threads.
 */
#include "loader/sample_reader.h"
#include "tests/loader/fixture.h"

#include "tests/support/read_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 150, SAMPLES_A_SHARD = 40, THREADS = 24, EPOCH = 3 };

static const struct loader_field fields[] = {
    {.name = "caption", .from = "txt", .decode = LOADER_FIELD_STR},
    {.name = "array", .from = "npy", .decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 2},
};

static int set_up(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = SAMPLES_A_SHARD;
    options.with_record = true;
    return fixture_set_up_with_options(state, &options);
}

static struct loader_options make_options(const struct fixture *fixture, enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    if (decode == LOADER_IMAGE) {
        options.fields = fields;
        options.fields_count = sizeof fields / sizeof fields[0];
    }
    return options;
}

static void assert_err_contains(const struct err *err, const char *text)
{
    char line[ERR_LINE_BYTES_MAX];
    assert_non_null(strstr(err_format(err, line, sizeof line), text));
}

static struct sample_reader *open_reader(const struct loader_options *options)
{
    struct sample_reader *reader;
    struct err err;
    assert_ok(sample_reader_open(options, &reader, &err), &err);
    return reader;
}

static void check_field(const struct batch_field *one, const struct batch_field *all, uint32_t item)
{
    assert_string_equal(one->name, all->name);
    assert_int_equal(one->dtype, all->dtype);
    assert_int_equal(one->rank, all->rank);
    uint64_t bytes = (uint64_t)all->stride_bytes[0], first = item;
    if (all->offsets) {
        first = (uint64_t)all->offsets[item];
        bytes *= (uint64_t)(all->offsets[item + 1] - all->offsets[item]);
        assert_int_equal(one->offsets[1], all->offsets[item + 1] - all->offsets[item]);
        assert_memory_equal(one->shapes, all->shapes + item * all->item_rank,
                            all->item_rank * sizeof *all->shapes);
    }
    assert_memory_equal(one->data,
                        (const uint8_t *)all->data + first * (uint64_t)all->stride_bytes[0], bytes);
}

/* Compares a batch of one with an item of a loader's batch. */
static void check_sample(const struct batch *one, const struct batch *all, uint32_t i)
{
    const struct batch_item *found = &one->items[0], *expected = &all->items[i];
    assert_int_equal(one->items_count, 1);
    assert_int_equal(found->key_bytes, expected->key_bytes);
    assert_memory_equal(found->key, expected->key, expected->key_bytes);
    assert_int_equal(found->window, expected->window);
    assert_int_equal(found->fields_count, expected->fields_count);
    for (uint32_t f = 0; f < expected->fields_count; f++) {
        assert_string_equal(found->fields[f].extension, expected->fields[f].extension);
        assert_int_equal(found->fields[f].bytes, expected->fields[f].bytes);
        assert_memory_equal(found->fields[f].data, expected->fields[f].data,
                            expected->fields[f].bytes);
    }
    assert_int_equal(one->fields_count, all->fields_count);
    for (uint32_t f = 0; f < all->fields_count; f++)
        check_field(&one->fields[f], &all->fields[f], i);
}

/* Reads the samples of a shuffled epoch one by one. */
static void expect_same_as_loader(struct loader_options *options)
{
    struct sample_reader *reader = open_reader(options);
    struct loader *loader;
    const struct batch *batch, *one;
    struct err err;
    uint64_t count = 0;
    options->epoch = EPOCH;
    options->epochs_max = 1;
    options->drop_last = false;
    assert_ok(loader_open(options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++, count++) {
            struct sample_ref ref = batch->items[i].ref;
            assert_ok(sample_reader_read(reader, EPOCH, ref.sample, &one, &err), &err);
            check_sample(one, batch, i);
            sample_reader_release(reader, one);
        }
        loader_release(loader, batch);
    }
    assert_int_equal(count, sample_reader_info(reader).samples);
    loader_close(loader);
    sample_reader_close(reader);
}

static void samples_have_the_bits_of_a_loader(void **state)
{
    for (int decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = make_options(*state, (enum loader_decode)decode);
        expect_same_as_loader(&options);
    }
}

static void windows_have_the_bits_of_a_loader(void **state)
{
    struct fixture fixture;
    struct err err;
    uint64_t sample;
    (void)state;
    fixture_make_text(&fixture, 20001, 1001, 7);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    options.text.block = 64;
    expect_same_as_loader(&options);
    struct sample_reader *reader = open_reader(&options);
    assert_int_equal(sample_reader_find(reader, "a", 1, &sample, &err), -EINVAL);
    assert_err_contains(&err, "windows of text have no keys");
    sample_reader_close(reader);
    fixture_remove(&fixture);
}

static void each_key_leads_to_its_sample(void **state)
{
    struct loader_options options = make_options(*state, LOADER_BYTES);
    struct sample_reader *reader = open_reader(&options);
    char key[SAMPLE_KEY_BYTES_MAX];
    struct err err;
    uint64_t sample;
    for (uint64_t i = SAMPLES; i-- > 0;) {
        assert_ok(sample_reader_key(reader, i, key, &err), &err);
        assert_int_equal(sample_reader_find(reader, key, strlen(key), &sample, &err), 1);
        assert_int_equal(sample, i);
    }
    assert_int_equal(sample_reader_find(reader, "k", 1, &sample, &err), 0);
    assert_int_equal(sample_reader_key(reader, SAMPLES, key, &err), -ERANGE);
    sample_reader_close(reader);
}

static void a_key_of_several_samples_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    uint64_t sample;
    char pattern[TEST_PATH_BYTES_MAX + 32];
    assert_int_equal(test_run("cp '%s'/shard-000000.tar '%s'/shard-000009.tar", fixture->folder,
                              fixture->folder),
                     0);
    struct loader_options options = make_options(fixture, LOADER_BYTES);
    snprintf(pattern, sizeof pattern, "%s/shard-00000{0,9}.tar", fixture->folder);
    options.dataset = pattern;
    struct sample_reader *reader = open_reader(&options);
    assert_int_equal(sample_reader_info(reader).samples, 2 * SAMPLES_A_SHARD);
    assert_int_equal(sample_reader_find(reader, "k000007", 7, &sample, &err), -EINVAL);
    assert_err_contains(&err, "samples 7 and 47");
    sample_reader_close(reader);
}

static void a_sample_costs_one_read(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = make_options(fixture, LOADER_BYTES);
    const struct batch *batch;
    struct err err;
    read_log_begin(fixture->io);
    struct sample_reader *reader = open_reader(&options);
    for (uint64_t i = 0; i < SAMPLES_A_SHARD; i++) {
        assert_ok(sample_reader_read(reader, 0, i, &batch, &err), &err);
        sample_reader_release(reader, batch);
    }
    struct read_log_sum sum = read_log_sum("shard-000000");
    assert_int_equal(sum.opens_count, 1);
    assert_int_equal(sum.reads_count, 1 + SAMPLES_A_SHARD);
    assert_int_equal(read_log_sum("shard-000001").opens_count, 0);
    sample_reader_close(reader);
    read_log_end(fixture->io);
}

static void damage_is_named_and_the_other_samples_are_read(void **state)
{
    struct fixture *fixture = *state;
    const struct batch *batch;
    struct shard_field field;
    struct err err;
    char path[IO_PATH_BYTES_MAX];
    fixture_flip_in_field(fixture, 50, "jpg", 9);
    fixture_find_field(fixture, 50, "jpg", path, &field);
    for (int decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = make_options(fixture, (enum loader_decode)decode);
        struct sample_reader *reader = open_reader(&options);
        for (uint64_t i = 45; i < 55; i++) {
            int status = sample_reader_read(reader, 0, i, &batch, &err);
            assert_int_equal(status, i == 50 ? -EBADMSG : 0);
            if (!status) {
                sample_reader_release(reader, batch);
                continue;
            }
            assert_err_contains(&err, "k000050");
            assert_err_contains(&err, "CRC32C");
            assert_string_equal(err.path, path);
            assert_int_equal(err.offset, field.data_offset);
        }
        assert_int_equal(sample_reader_read(reader, 0, SAMPLES, &batch, &err), -ERANGE);
        sample_reader_close(reader);
    }
}

/* ---- Threads. ---- */

struct thread_job {
    struct sample_reader *reader;
    uint32_t number;
    uint64_t sums[SAMPLES]; /* of the pixels */
};

static void *read_all(void *argument)
{
    struct thread_job *job = argument;
    for (uint32_t k = 0; k < SAMPLES; k++) {
        uint64_t sample = (k * 7 + job->number * 11) % SAMPLES, found;
        char key[SAMPLE_KEY_BYTES_MAX];
        const struct batch *batch;
        if (sample_reader_read(job->reader, 0, sample, &batch, NULL) ||
            sample_reader_key(job->reader, sample, key, NULL) ||
            sample_reader_find(job->reader, key, strlen(key), &found, NULL) != 1 || found != sample)
            return NULL;
        const struct batch_field *image = batch_field_named(batch, "image");
        const uint8_t *pixels = image->data;
        for (int64_t i = 0; i < image->stride_bytes[0]; i++)
            job->sums[sample] = job->sums[sample] * 31 + pixels[i];
        sample_reader_release(job->reader, batch);
    }
    return job;
}

static void many_threads_read_the_same(void **state)
{
    static struct thread_job jobs[THREADS];
    struct loader_options options = make_options(*state, LOADER_IMAGE);
    options.image.width = options.image.height = 24;
    options.workers = 3; /* fewer than threads */
    struct sample_reader *reader = open_reader(&options);
    pthread_t threads[THREADS];
    void *result;
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct thread_job){.reader = reader, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &jobs[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &jobs[i]);
        assert_memory_equal(jobs[i].sums, jobs[0].sums, sizeof jobs[0].sums);
    }
    sample_reader_close(reader);
}

static void kept_fields_outlive_the_reader(void **state)
{
    struct loader_options options = make_options(*state, LOADER_IMAGE);
    struct sample_reader *reader = open_reader(&options);
    struct batch_memory *kept[SAMPLES][2];
    const struct batch *batch;
    struct err err;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        assert_ok(sample_reader_read(reader, 0, i, &batch, &err), &err);
        kept[i][0] = batch_field_retain(batch_field_named(batch, "label"));
        kept[i][1] = batch_field_retain(batch_field_named(batch, "array"));
        sample_reader_release(reader, batch);
    }
    sample_reader_close(reader);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        batch_memory_release(kept[i][i % 2]);
        batch_memory_release(kept[i][1 - i % 2]);
    }
}

static void what_needs_a_loader_is_refused(void **state)
{
    struct loader_options options = make_options(*state, LOADER_IMAGE);
    const struct loader_source mix = {.path = options.dataset, .weight = 1};
    struct sample_reader *reader = NULL;
    struct err err;
    options.image.mixup.mixup_alpha = 1;
    assert_int_equal(sample_reader_open(&options, &reader, &err), -EINVAL);
    assert_err_contains(&err, "mixup");
    options = make_options(*state, LOADER_BYTES);
    options.selection.repeat = 2;
    assert_int_equal(sample_reader_open(&options, &reader, &err), -EINVAL);
    assert_err_contains(&err, "a selection");
    options = make_options(*state, LOADER_BYTES);
    options.dataset = NULL;
    options.mix = &mix;
    options.mix_count = 1;
    assert_int_equal(sample_reader_open(&options, &reader, &err), -EINVAL);
    assert_err_contains(&err, "a mix");
    assert_null(reader);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(samples_have_the_bits_of_a_loader),
        cmocka_unit_test(windows_have_the_bits_of_a_loader),
        CASE(each_key_leads_to_its_sample),
        CASE(a_key_of_several_samples_is_refused),
        CASE(a_sample_costs_one_read),
        CASE(damage_is_named_and_the_other_samples_are_read),
        CASE(many_threads_read_the_same),
        CASE(kept_fields_outlive_the_reader),
        CASE(what_needs_a_loader_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
