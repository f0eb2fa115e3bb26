/*
 * tokens — tests fields of tokens (LOADER_FIELD_TOKENS): restarts, texts that are too short, and
 * texts that become longer.
 */
#include "base/hash.h"
#include "loader/state.h"
#include "shards/format/shard.h"
#include "tests/loader/fixture.h"
#include "tests/support/byte_tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 400, LENGTH = 60, FIELDS_COUNT = 2, BATCHES_MAX = 128 };

static char tokenizer[TEST_PATH_BYTES_MAX + 20];

static const struct loader_field fields[FIELDS_COUNT] = {{.name = "ragged",
                                                          .from = "txt",
                                                          .decode = LOADER_FIELD_TOKENS,
                                                          .tokenizer = tokenizer,
                                                          .end_token = BYTE_TOKENIZER_END},
                                                         {.name = "padded",
                                                          .from = "txt",
                                                          .decode = LOADER_FIELD_TOKENS,
                                                          .tokenizer = tokenizer,
                                                          .begin_token = BYTE_TOKENIZER_END,
                                                          .length = LENGTH,
                                                          .pad_token = 7}};

static void write_tokenizer(const struct fixture *fixture)
{
    struct str json = {0};
    byte_tokenizer_add(&json);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", fixture->folder);
    test_write_file(tokenizer, json.data, json.bytes);
    str_deinit(&json);
}

static struct loader_options token_options(const struct fixture *fixture)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_RECORD);
    options.fields = fields;
    options.fields_count = FIELDS_COUNT;
    options.bad_policy = LOADER_BAD_STOP;
    return options;
}

static int make_records(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.with_record = true;
    fixture_set_up_with_options(state, &options);
    write_tokenizer(*state);
    return 0;
}

/* ---- Restarts. ---- */

/* Takes up to batches_max batches. Returns their number, and the hash of each. */
static uint32_t take(struct loader *loader, uint32_t batches_max, uint64_t hashes[BATCHES_MAX])
{
    const struct batch *batch;
    struct err err;
    uint32_t count = 0;
    while (count < batches_max && loader_next(loader, &batch, &err) == LOADER_BATCH) {
        struct delivery delivered = {0};
        assert_true(count < BATCHES_MAX);
        delivery_add(&delivered, batch);
        hashes[count++] =
            hash_64(delivered.text, delivered.bytes) + delivered.hash * (batch->micro + 1);
        delivery_free(&delivered);
        loader_release(loader, batch);
    }
    return count;
}

static void set_cursor(struct loader_options *options, const struct cursor *cursor)
{
    options->epoch = cursor->epoch;
    options->position = cursor->position;
    options->micros_done = cursor->micros_done;
    options->set_digest = cursor->set_digest;
    options->sequence_digest = cursor->sequence_digest;
}

/* After any number of batches, the rest is the same bytes as without a restart. */
static void resume_mid_epoch_gives_the_same_tokens(void **state)
{
    struct loader_options options = token_options(*state);
    struct loader *loader;
    struct err err;
    uint64_t whole[BATCHES_MAX], parts[BATCHES_MAX];
    assert_ok(loader_open(&options, &loader, &err), &err);
    uint32_t count = take(loader, UINT32_MAX, whole);
    struct cursor end = loader_cursor(loader);
    loader_close(loader);
    assert_true(count > 50);
    for (uint32_t first = 1; first < count; first += 9) {
        options = token_options(*state);
        options.workers = 1 + first % 3;
        assert_ok(loader_open(&options, &loader, &err), &err);
        assert_int_equal(take(loader, first, parts), first);
        struct cursor cursor = loader_cursor_in_step(loader);
        loader_close(loader);
        set_cursor(&options, &cursor);
        options.workers = 2;
        assert_ok(loader_open(&options, &loader, &err), &err);
        assert_int_equal(take(loader, UINT32_MAX, parts + first), count - first);
        cursor = loader_cursor(loader);
        assert_true(cursor.set_digest == end.set_digest);
        assert_true(cursor.sequence_digest == end.sequence_digest);
        loader_close(loader);
        assert_memory_equal(parts, whole, count * sizeof whole[0]);
    }
}

/* ---- length_min. ---- */

/* Lengths by sample, with the begin and end tokens; -1: skipped. */
static void read_lengths(const struct loader_options *options, int64_t lengths[SAMPLES])
{
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    int status;
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        const struct batch_field *field = batch_field_named(batch, "ragged");
        for (uint32_t i = 0; i < batch->items_count; i++) {
            const struct batch_item *item = &batch->items[i];
            lengths[item->ref.sample] =
                item->skipped ? -1 : field->offsets[i + 1] - field->offsets[i];
        }
        loader_release(loader, batch);
    }
    assert_int_equal(status, LOADER_END);
    loader_close(loader);
}

static void texts_with_fewer_tokens_are_bad(void **state)
{
    struct loader_options options = token_options(*state);
    struct loader_field field = fields[0];
    static int64_t all[SAMPLES], some[SAMPLES];
    uint32_t bad = 0;
    options.fields = &field;
    options.fields_count = 1;
    read_lengths(&options, all);
    field.length_min = (uint32_t)all[SAMPLES / 2];
    options.bad_policy = LOADER_BAD_SKIP;
    options.bad_fraction_max = 1;
    read_lengths(&options, some);
    for (uint32_t s = 0; s < SAMPLES; s++) {
        bad += all[s] < field.length_min;
        assert_int_equal(some[s], all[s] < field.length_min ? -1 : all[s]);
    }
    assert_in_range(bad, 1, SAMPLES - 1);
}

static void a_length_below_the_minimum_is_refused(void **state)
{
    struct loader_options options = token_options(*state);
    struct loader_field field = fields[1];
    struct loader *loader;
    struct err err = {0};
    options.fields = &field;
    options.fields_count = 1;
    field.length_min = LENGTH + 1;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.found, "length 60, length_min 61"));
    field.length_min = LENGTH;
    assert_ok(loader_open(&options, &loader, &err), &err);
    loader_close(loader);
}

/* ---- Memory. ---- */

/* NFC replaces U+0344, of 2 bytes, by two characters of 2 bytes, each byte a token. */
static void texts_that_become_longer_are_freed(void **state)
{
    (void)state;
    enum { COUNT = 30, EPOCHS = 8 };
    struct fixture fixture = {.samples = COUNT};
    char path[TEST_PATH_BYTES_MAX + 16], text[2 * COUNT + 1] = "";
    struct shard_writer *writer;
    struct shard_summary summary;
    const struct batch *batch;
    struct loader *loader;
    struct batch_memory *kept = NULL;
    struct err err;
    uint64_t items = 0;
    test_make_folder(fixture.folder);
    assert_ok(io_open(fixture.folder, NULL, &fixture.io, &err), &err);
    write_tokenizer(&fixture);
    snprintf(path, sizeof path, "%s/a.tar", fixture.folder);
    assert_ok(shard_writer_open(fixture.io, path, false, &writer, &err), &err);
    for (uint32_t s = 0; s < COUNT; s++) {
        char key[16];
        snprintf(key, sizeof key, "k%02u", s);
        strcat(text, "\xcd\x84");
        assert_ok(shard_writer_begin_sample(writer, key, &err), &err);
        assert_ok(shard_writer_add_field(writer, "txt", text, strlen(text), &err), &err);
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    struct loader_options options = token_options(&fixture);
    options.dataset = path;
    options.epochs_max = EPOCHS;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        const struct batch_field *field = batch_field_named(batch, "ragged");
        for (uint32_t i = 0; i < batch->items_count; i++)
            assert_int_equal(field->offsets[i + 1] - field->offsets[i],
                             4 * (batch->items[i].ref.sample + 1) + 1);
        items += batch->items_count;
        if (!kept)
            kept = batch_field_retain(field);
        loader_release(loader, batch);
    }
    assert_int_equal(items, COUNT * EPOCHS);
    loader_close(loader); /* ends the threads; the field keeps the loader */
    assert_int_equal(loader->memory.substitute_bytes, kept->bytes);
    batch_memory_release(kept);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_mid_epoch_gives_the_same_tokens),
        cmocka_unit_test(texts_with_fewer_tokens_are_bad),
        cmocka_unit_test(a_length_below_the_minimum_is_refused),
        cmocka_unit_test(texts_that_become_longer_are_freed),
    };
    return cmocka_run_group_tests(tests, make_records, fixture_tear_down);
}
