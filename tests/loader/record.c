/*
 * record — tests options.fields: ragged fields of images and records, their memory and defects.
 */
#include "base/hash.h"
#include "loader/state.h"
#include "tests/loader/fixture.h"
#include "tests/loader/late_device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 400, WITHOUT_TXT = 21, BAD_TXT = 105, OTHER_NPY = 333, CAPTION = 0, ARRAY = 1 };

static const struct loader_field fields[] = {
    {.name = "caption", .from = "caption;txt", .decode = LOADER_FIELD_STR},
    {.name = "array", .from = "npy", .decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F32, .rank = 2},
    {.name = "stored", .from = "txt", .decode = LOADER_FIELD_BYTES},
};
enum { FIELDS_COUNT = sizeof fields / sizeof fields[0] };

static int make_records(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.with_record = true;
    return fixture_set_up_with_options(state, &options);
}

static struct loader_options record_options(const struct fixture *fixture,
                                            enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.fields = fields;
    options.fields_count = FIELDS_COUNT;
    return options;
}

/* Compares an item's values with those of the sample; none: it was skipped. */
static void check_item(const struct batch *batch, uint32_t item, uint64_t sample, bool is_none)
{
    char caption[FIXTURE_CAPTION_BYTES_MAX];
    float values[FIXTURE_ARRAY_ROWS_MAX * FIXTURE_ARRAY_COLUMNS];
    uint64_t caption_bytes = fixture_caption(sample, caption);
    uint64_t rows = fixture_array(sample, values), columns = FIXTURE_ARRAY_COLUMNS;
    for (uint32_t f = 0; f < FIELDS_COUNT; f++) {
        const struct batch_field *field = batch_field_named(batch, fields[f].name);
        uint32_t rank = f == ARRAY ? 2 : 1;
        assert_non_null(field);
        assert_int_equal(field->item_rank, rank);
        const int64_t *offsets = &field->offsets[item], *shape = &field->shapes[item * rank];
        const uint8_t *data = (const uint8_t *)field->data + offsets[0] * field->stride_bytes[0];
        if (is_none) {
            assert_int_equal(offsets[1], offsets[0]);
            assert_int_equal(shape[0], 0);
        } else if (f == ARRAY) {
            assert_int_equal(shape[0], rows);
            assert_int_equal(shape[1], columns);
            assert_int_equal(offsets[1] - offsets[0], rows * columns);
            assert_memory_equal(data, values, rows * columns * sizeof values[0]);
        } else {
            assert_int_equal(shape[0], caption_bytes);
            assert_int_equal(offsets[1] - offsets[0], caption_bytes);
            assert_memory_equal(data, caption, caption_bytes);
        }
    }
}

/* Returns the sample that the item delivers. */
static uint64_t delivered_sample(struct loader *loader, const struct batch_item *item)
{
    const struct loader_bad_sample *bad;
    uint64_t count = loader_quarantine(loader, &bad);
    for (uint64_t i = 0; item->substituted && i < count; i++)
        if (bad[i].ref.sample == item->ref.sample && bad[i].ref.epoch == item->ref.epoch)
            return bad[i].substitute;
    return item->ref.sample;
}

static void check_batch(struct loader *loader, const struct batch *batch)
{
    for (uint32_t f = 0; f < FIELDS_COUNT; f++) {
        const struct batch_field *field = batch_field_named(batch, fields[f].name);
        assert_non_null(field);
        assert_int_equal(field->dtype, f == ARRAY ? DTYPE_F32 : DTYPE_U8);
        assert_int_equal(field->rank, 1);
        assert_int_equal(field->offsets[0], 0);
        assert_int_equal(field->offsets[batch->items_count], field->shape[0]);
        assert_int_equal((uintptr_t)field->data % 64, 0);
    }
    for (uint32_t i = 0; i < batch->items_count; i++)
        check_item(batch, i, delivered_sample(loader, &batch->items[i]), batch->items[i].skipped);
}

/* Takes all batches and checks them. Returns the number of items. */
static uint64_t check_all(const struct loader_options *options, struct delivery *delivered,
                          struct loader_stats *ret_stats)
{
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    int status;
    *delivered = (struct delivery){0};
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        check_batch(loader, batch);
        delivery_add(delivered, batch);
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    if (ret_stats)
        *ret_stats = loader_stats(loader);
    loader_close(loader);
    return delivered->items;
}

/* ---- Values. ---- */

static void fields_are_as_stored(void **state)
{
    struct loader_options options = record_options(*state, LOADER_RECORD);
    struct delivery first = {0}, other = {0};
    options.epochs_max = 2;
    assert_int_equal(check_all(&options, &first, NULL), 2 * SAMPLES);
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        options.workers = workers;
        options.memory_bytes = workers == 1 ? 3 << 20 : 256 << 20;
        check_all(&options, &other, NULL);
        assert_string_equal(first.text, other.text);
        assert_true(first.hash == other.hash);
        delivery_free(&other);
    }
    delivery_free(&first);
}

/* Images and labels do not change if a batch has more fields. "stored" overlaps "caption", and
 * another field the image. */
static void images_have_more_fields(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct loader_field more[FIELDS_COUNT + 1];
    struct loader *loaders[2];
    const struct batch *batches[2];
    struct err err;
    int status;
    memcpy(more, fields, sizeof fields);
    more[FIELDS_COUNT] =
        (struct loader_field){.name = "file", .from = "jpg", .decode = LOADER_FIELD_BYTES};
    assert_ok(loader_open(&options, &loaders[0], &err), &err);
    options.fields = more;
    options.fields_count = FIELDS_COUNT + 1;
    assert_ok(loader_open(&options, &loaders[1], &err), &err);
    while ((status = loader_next(loaders[0], &batches[0], &err)) == LOADER_BATCH) {
        assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_BATCH);
        check_batch(loaders[1], batches[1]);
        for (uint32_t f = 0; f < batches[0]->fields_count; f++) {
            const struct batch_field *a = &batches[0]->fields[f],
                                     *b = batch_field_named(batches[1], a->name);
            assert_memory_equal(a->data, b->data, (size_t)a->stride_bytes[0] * a->shape[0]);
        }
        const struct batch_field *files = batch_field_named(batches[1], "file");
        for (uint32_t i = 0; i < batches[1]->items_count; i++)
            assert_memory_equal((const uint8_t *)files->data + files->offsets[i], "\xff\xd8", 2);
        loader_release(loaders[0], batches[0]);
        loader_release(loaders[1], batches[1]);
    }
    assert_ok(status, &err);
    assert_int_equal(loader_next(loaders[1], &batches[1], &err), LOADER_END);
    loader_close(loaders[0]);
    loader_close(loaders[1]);
}

/* Several ranks, and a restart in the middle of a step, deliver what one rank does. */
static void ranks_and_restarts_deliver_the_same(void **state)
{
    struct loader_options options = record_options(*state, LOADER_RECORD);
    struct cursor whole, sum = {0}, cursor;
    struct delivery delivered = {0}, rest = {0};
    struct loader *loader;
    struct err err;
    consume_all(&options, &delivered, NULL, &whole);
    delivery_free(&delivered);
    options.batching.ranks = 3;
    for (uint64_t rank = 0; rank < 3; rank++) {
        options.batching.rank = rank;
        consume_all(&options, &delivered, NULL, &cursor);
        delivery_free(&delivered);
        sum.set_digest += cursor.set_digest;
        sum.sequence_digest += cursor.sequence_digest;
    }
    assert_true(sum.set_digest == whole.set_digest);
    assert_true(sum.sequence_digest == whole.sequence_digest);
    options.batching = (struct batching){.global = 24, .micro = 4, .ranks = 1};
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, &delivered, 9);
    cursor = loader_cursor_in_step(loader);
    loader_close(loader);
    assert_true(cursor.micros_done > 0);
    options.epoch = cursor.epoch;
    options.position = cursor.position;
    options.micros_done = cursor.micros_done;
    options.set_digest = cursor.set_digest;
    options.sequence_digest = cursor.sequence_digest;
    assert_int_equal(check_all(&options, &rest, NULL), SAMPLES - delivered.items);
    delivery_free(&delivered);
    delivery_free(&rest);
}

/* The last step has 16 samples in 6 micro-batches: some are empty. */
static void empty_and_padded_batches_have_all_fields(void **state)
{
    for (int pad = 0; pad < 2; pad++) {
        struct loader_options options = record_options(*state, LOADER_RECORD);
        struct delivery delivered;
        options.pad_last = pad;
        assert_int_equal(check_all(&options, &delivered, NULL), pad ? 408 : SAMPLES);
        assert_int_equal(delivered.batches, 102);
        delivery_free(&delivered);
    }
}

static const struct loader_field json_fields[] = {
    {.name = "id",
     .from = "json",
     .path = "$.class.id",
     .decode = LOADER_FIELD_INT,
     .default_value = "-9223372036854775808"},
    {.name = "f32",
     .from = "json",
     .path = "$.score",
     .decode = LOADER_FIELD_F32,
     .default_value = "1e-3"},
    {.name = "f64",
     .from = "json",
     .path = "$.score",
     .decode = LOADER_FIELD_F64,
     .default_value = "7"},
    {.name = "good",
     .from = "json",
     .path = "$.good",
     .decode = LOADER_FIELD_BOOL,
     .default_value = "true"},
    {.name = "title",
     .from = "json",
     .path = "$.title",
     .decode = LOADER_FIELD_STR,
     .default_value = "a title that is longer than the stored document, which is absent"},
    {.name = "cls", .from = "cls", .decode = LOADER_FIELD_INT},
};

static void check_json_item(const struct batch *batch, uint32_t i)
{
    const struct batch_field *titles = batch_field_named(batch, "title");
    uint64_t s = batch->items[i].ref.sample;
    bool has_json = s % 10 != 9, has_score = has_json && s % 10 != 8;
    double score = s % 2 ? 0.1 : -3e2;
    char title[80];
    snprintf(title, sizeof title, "n\xc2\xb0 %d", (int)s);
    if (!has_json)
        snprintf(title, sizeof title, "%s", json_fields[4].default_value);
    assert_true(((const int64_t *)batch_field_named(batch, "id")->data)[i] ==
                (has_json ? (int64_t)(s * 1000000007) : INT64_MIN));
    assert_true(((const float *)batch_field_named(batch, "f32")->data)[i] ==
                (has_score ? (float)score : 1e-3f));
    assert_true(((const double *)batch_field_named(batch, "f64")->data)[i] ==
                (has_score ? score : 7));
    assert_int_equal(((const bool *)batch_field_named(batch, "good")->data)[i],
                     has_json ? s % 3 == 0 : true);
    assert_int_equal(((const int64_t *)batch_field_named(batch, "cls")->data)[i],
                     s % FIXTURE_CLASSES);
    assert_int_equal(titles->offsets[i + 1] - titles->offsets[i], strlen(title));
    assert_memory_equal((const char *)titles->data + titles->offsets[i], title, strlen(title));
}

static void values_come_from_json_or_are_defaults(void **state)
{
    for (int decode = LOADER_IMAGE; decode <= LOADER_RECORD;
         decode += LOADER_RECORD - LOADER_IMAGE) {
        struct loader_options options = fixture_loader_options(*state, (enum loader_decode)decode);
        const struct batch *batch;
        struct loader *loader;
        struct err err;
        uint64_t items = 0;
        int status;
        options.fields = json_fields;
        options.fields_count = sizeof json_fields / sizeof json_fields[0];
        options.pad_last = true;
        options.bad_policy = LOADER_BAD_STOP;
        options.image.mixup.mixup_alpha = decode == LOADER_IMAGE ? 1 : 0;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++) {
                check_json_item(batch, i);
                assert_int_equal(((const bool *)batch_field_named(batch, "valid")->data)[i],
                                 !batch->items[i].is_padding);
            }
            items += batch->items_count;
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        assert_int_equal(items, 408);
        loader_close(loader);
    }
}

/* Checks an item's JSON text; none: the default. */
static void check_json_text(const struct batch *batch, uint32_t i, const char *name,
                            const char *format, ...)
{
    const struct batch_field *field = batch_field_named(batch, name);
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    size_t bytes = (size_t)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_int_equal(field->offsets[i + 1] - field->offsets[i], bytes);
    assert_int_equal(field->shapes[i], bytes);
    assert_memory_equal((const char *)field->data + field->offsets[i], text, bytes);
}

static void json_is_as_stored_or_compact(void **state)
{
    static const struct loader_field list[] = {
        {.name = "whole", .from = "json", .decode = LOADER_FIELD_JSON, .default_value = " {} "},
        {.name = "class",
         .from = "json",
         .path = "$.class",
         .decode = LOADER_FIELD_JSON,
         .default_value = "null"},
        {.name = "score",
         .from = "json",
         .path = "$.score",
         .decode = LOADER_FIELD_JSON,
         .default_value = "[1, \"a default that is longer than the stored document, even in its "
                          "longest form, if it is absent\"]"},
        {.name = "title",
         .from = "json",
         .path = "$.title",
         .decode = LOADER_FIELD_JSON,
         .default_value = "\"\""},
        {.name = "cls", .from = "cls", .decode = LOADER_FIELD_JSON}};
    struct loader_options options = fixture_loader_options(*state, LOADER_RECORD);
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint64_t items = 0;
    options.fields = list;
    options.fields_count = sizeof list / sizeof list[0];
    options.bad_policy = LOADER_BAD_STOP;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            int s = (int)batch->items[i].ref.sample;
            check_json_text(batch, i, "cls", "%d", s % FIXTURE_CLASSES);
            if (s % 10 == 9) { /* has no JSON */
                for (uint32_t f = 0; f < 4; f++)
                    check_json_text(batch, i, list[f].name, "%s", list[f].default_value);
                continue;
            }
            check_json_text(
                batch, i, "whole",
                "{\"class\":{\"id\":%lld},\"score\":%s,\"good\":%s,\"title\":\"n\\u00b0 %d\"}\n",
                s * 1000000007LL,
                s % 10 == 8 ? "null"
                : s % 2     ? "0.1"
                            : "-3e2",
                s % 3 ? "false" : "true", s);
            check_json_text(batch, i, "class", "{\"id\":%lld}", s * 1000000007LL);
            check_json_text(batch, i, "score", "%s",
                            s % 10 == 8 ? list[2].default_value
                            : s % 2     ? "0.1"
                                        : "-300");
            check_json_text(batch, i, "title", "\"n\xc2\xb0 %d\"", s);
        }
        items += batch->items_count;
        loader_release(loader, batch);
    }
    assert_int_equal(items, SAMPLES);
    loader_close(loader);
}

static void wrong_values_are_bad_samples(void **state)
{
    static const struct {
        struct loader_field field;
        const char *text, *expected;
    } cases[] = {
        {{.path = "$.score", .decode = LOADER_FIELD_INT},
         "at $.score has the wrong type",
         "integer"},
        {{.path = "$.title", .decode = LOADER_FIELD_F32}, "at $.title has the wrong type", "float"},
        {{.path = "$.class", .decode = LOADER_FIELD_STR},
         "at $.class has the wrong type",
         "string"},
        {{.path = "$.class.id", .decode = LOADER_FIELD_BOOL},
         "has the wrong type",
         "true or false"},
        {{.path = "$.none", .decode = LOADER_FIELD_F64}, "has no value at $.none", ""},
        {{.decode = LOADER_FIELD_INT}, "field \"json\" has the wrong type", "integer"},
        {{.from = "jpg", .decode = LOADER_FIELD_INT}, "not valid JSON", ""},
        {{.from = "jpg", .decode = LOADER_FIELD_JSON}, "not valid JSON", ""},
        {{.path = "$.title[0]", .decode = LOADER_FIELD_JSON}, "has no value at $.title[0]", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader_options options = fixture_loader_options(*state, LOADER_RECORD);
        struct loader_field field = cases[i].field;
        struct err err;
        field.name = "value";
        field.from = field.from ? field.from : "json";
        options.fields = &field;
        options.fields_count = 1;
        options.bad_policy = LOADER_BAD_STOP;
        options.order = ORDER_SEQUENTIAL;
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_non_null(strstr(err.what, cases[i].expected));
    }
}

/* ---- Reading. ---- */

static void only_requested_fields_are_read(void **state)
{
    (void)state;
    enum { COUNT = 60, PAD_BYTES = 300000 };
    struct fixture_options made = fixture_options_default(COUNT);
    struct fixture fixture;
    struct delivery delivered;
    struct loader_stats stats;
    made.with_record = true;
    made.pad_bytes = PAD_BYTES;
    fixture_make_images(&fixture, &made);
    struct loader_options options = record_options(&fixture, LOADER_RECORD);
    assert_int_equal(check_all(&options, &delivered, &stats), COUNT);
    assert_in_range(stats.read_bytes, stats.wanted_bytes / 2, COUNT * (uint64_t)PAD_BYTES / 20);
    /* memory is for what is wanted */
    assert_in_range(options.memory_bytes, 1, COUNT * (uint64_t)PAD_BYTES * 2);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

/* ---- Bad samples. ---- */

static void make_defects(struct fixture *fixture)
{
    struct fixture_options made = fixture_options_default(SAMPLES);
    made.with_record = true;
    made.without_txt = WITHOUT_TXT;
    made.bad_txt = BAD_TXT;
    made.other_npy = OTHER_NPY;
    fixture_make_images(fixture, &made);
    fixture_flip_in_field(fixture, 50, "txt", 3);
}

static void bad_fields_are_replaced(void **state)
{
    (void)state;
    struct fixture fixture;
    make_defects(&fixture);
    for (int decode = LOADER_IMAGE; decode <= LOADER_RECORD; decode++) {
        if (decode == LOADER_TOKENS)
            continue;
        struct loader_options options = record_options(&fixture, (enum loader_decode)decode);
        struct delivery delivered;
        struct loader_stats stats;
        options.bad_fraction_max = 1;
        options.epochs_max = 6; /* substitutes differ: some are larger than what they replace */
        assert_int_equal(check_all(&options, &delivered, &stats), 6 * SAMPLES);
        assert_int_equal(stats.bad_samples_count, 6 * 4);
        delivery_free(&delivered);
        options.bad_policy = LOADER_BAD_SKIP;
        assert_int_equal(check_all(&options, &delivered, &stats), 6 * SAMPLES);
        assert_int_equal(stats.bad_samples_count, 6 * 4);
        delivery_free(&delivered);
    }
    fixture_remove(&fixture);
}

static void bad_fields_are_named(void **state)
{
    (void)state;
    static const struct {
        int64_t sample;
        const char *text;
    } cases[] = {{WITHOUT_TXT, "no field \"txt\""},
                 {BAD_TXT, "field \"txt\" is not UTF-8"},
                 {OTHER_NPY, "the array in field \"npy\" has another type: expected F32, 2 dimen"},
                 {50, "CRC32C of field \"txt\" does not match"}};
    struct fixture fixture;
    make_defects(&fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader_options options = record_options(&fixture, LOADER_RECORD);
        struct err err;
        char key[16];
        options.bad_policy = LOADER_BAD_STOP;
        options.order = ORDER_SEQUENTIAL;
        options.position = (uint64_t)cases[i].sample;
        snprintf(key, sizeof key, "k%06d", (int)cases[i].sample);
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_non_null(strstr(err.what, key));
        assert_non_null(strstr(err.path, "shard-"));
    }
    fixture_remove(&fixture);
}

/* All samples lack the array, so none replaces another, but each has stored its file by then, also
 * outside the field's memory. Leak detection shows that it is freed. */
static void values_of_failed_substitutes_are_freed(void **state)
{
    static const struct loader_field list[] = {
        {.name = "file", .from = "jpg", .decode = LOADER_FIELD_BYTES},
        {.name = "array", .from = "npy", .decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_F64}};
    for (uint64_t position = 0; position < 24; position += 4) {
        struct loader_options options = fixture_loader_options(*state, LOADER_RECORD);
        struct err err;
        options.fields = list;
        options.fields_count = 2;
        options.order = ORDER_SEQUENTIAL;
        options.position = position;
        assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
        assert_non_null(strstr(err.what, "nor its"));
    }
}

static uint32_t list_count(const struct batch_memory *memory)
{
    uint32_t count = 0;
    for (; memory; memory = memory->next)
        count++;
    return count;
}

/* Micro-batches with larger substitutes get other memory, which is not kept. */
static void substitutes_do_not_add_up(void **state)
{
    (void)state;
    static const struct loader_field list[] = {
        {.name = "array",
         .from = "npy",
         .decode = LOADER_FIELD_ARRAY,
         .dtype = DTYPE_F32,
         .rank = 2},
        {.name = "caption", .from = "txt", .decode = LOADER_FIELD_STR}};
    struct fixture fixture;
    make_defects(&fixture);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_RECORD);
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    struct batch_memory *kept = NULL;
    options.fields = list;
    options.fields_count = 2;
    options.bad_fraction_max = 1;
    options.batches_ahead = 4;
    options.epochs_max = 40;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        batch_memory_release(kept);
        kept = batch_field_retain(&batch->fields[0]);
        loader_release(loader, batch);
    }
    assert_true(loader_stats(loader).bad_samples_count >= 3 * 40);
    loader_close(loader); /* ends the threads; the field keeps the lists */
    assert_in_range(list_count(loader->ragged.idle) + list_count(loader->ragged.freed), 1, 24);
    batch_memory_release(kept);
    fixture_remove(&fixture);
}

/* Its samples are bad; the sizes of fields are estimated without it. */
static void the_first_shard_may_be_damaged(void **state)
{
    (void)state;
    static const int kept_bytes[] = {0, 100, 2000, 30000};
    for (size_t i = 0; i < sizeof kept_bytes / sizeof kept_bytes[0]; i++) {
        struct fixture fixture;
        struct delivery delivered;
        struct loader_stats stats;
        struct fixture_options made = fixture_options_default(SAMPLES);
        made.with_record = true;
        fixture_make_images(&fixture, &made);
        assert_int_equal(test_run("chmod u+w '%s/shard-000000.tar' && "
                                  "truncate -s %d '%s/shard-000000.tar'",
                                  fixture.folder, kept_bytes[i], fixture.folder),
                         0);
        struct loader_options options = record_options(&fixture, LOADER_RECORD);
        options.bad_fraction_max = 1;
        assert_int_equal(check_all(&options, &delivered, &stats), SAMPLES);
        assert_int_equal(stats.bad_samples_count, made.samples_per_shard);
        delivery_free(&delivered);
        fixture_remove(&fixture);
    }
}

static void wrong_options_are_refused(void **state)
{
    struct loader_field list[LOADER_FIELDS_MAX + 1] = {
        {.name = "a", .from = "txt"},
        {.name = "a", .from = "npy"},
        {.name = "image", .from = "txt"},
        {.name = "b", .from = "wav"},
        {.name = NULL, .from = "txt"},
        {.name = "c", .from = "npy", .decode = LOADER_FIELD_ARRAY, .dtype = DTYPE_BF16},
        {.name = "d", .from = "txt", .path = "$.a"},
        {.name = "e", .from = "json", .decode = LOADER_FIELD_STR, .path = "a"},
        {.name = "f", .from = "json", .decode = LOADER_FIELD_INT, .default_value = "1.5"},
        {.name = "g", .from = "json", .decode = LOADER_FIELD_JSON, .default_value = "{} 1"}};
    const struct {
        enum loader_decode decode;
        uint32_t first, count;
        const char *text;
    } cases[] = {{LOADER_RECORD, 0, 0, "no fields"},
                 {LOADER_BYTES, 0, 1, "only images and records"},
                 {LOADER_TOKENS, 0, 1, "only images and records"},
                 {LOADER_RECORD, 0, 2, "two fields have the name \"a\""},
                 {LOADER_IMAGE, 2, 1, "two fields have the name \"image\""},
                 {LOADER_RECORD, 3, 1, "no field of that name"},
                 {LOADER_RECORD, 4, 1, "no name"},
                 {LOADER_RECORD, 5, 1, "cannot be an array of that type"},
                 {LOADER_RECORD, 6, 1, "is not JSON"},
                 {LOADER_RECORD, 7, 1, "a JSON path has the wrong form"},
                 {LOADER_RECORD, 8, 1, "the default of field \"f\" has the wrong type"},
                 {LOADER_RECORD, 9, 1, "the default of field \"g\" has the wrong type"},
                 {LOADER_RECORD, 0, LOADER_FIELDS_MAX + 1, "too many fields"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader_options options = fixture_loader_options(*state, cases[i].decode);
        struct loader *loader;
        struct err err;
        options.fields = &list[cases[i].first];
        options.fields_count = cases[i].count;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_true(err.advice[0] || err.expected[0]);
    }
}

/* ---- Memory. ---- */

/* Each error ends with a release; nothing is lost. */
static void keeping_a_field_gives_enobufs_or_grows(void **state)
{
    for (int grows = 0; grows < 2; grows++) {
        struct loader_options options = record_options(*state, LOADER_RECORD);
        struct batch_field kept[128];
        uint64_t hashes[128], items = 0, errors = 0;
        uint32_t first = 0, next = 0;
        const struct batch *batch;
        struct loader *loader;
        struct device *device;
        struct err err;
        int status;
        late_device_open(&device);
        options.device = device;
        options.batches_ahead = 4;
        options.memory_bytes = fixture_memory_for_long_reads(&options, 0) + (64 << 10);
        options.keep = grows ? LOADER_KEEP_GROW : LOADER_KEEP_ERROR;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) != LOADER_END) {
            if (status == -ENOBUFS) {
                assert_false(grows);
                assert_non_null(strstr(err.what, "kept by the caller"));
                errors++;
                batch_memory_release(kept[first++].memory);
                continue;
            }
            assert_int_equal(status, LOADER_BATCH);
            check_batch(loader, batch);
            items += batch->items_count;
            kept[next] = *batch_field_named(batch, "caption");
            hashes[next] = hash_64(kept[next].data, kept[next].shape[0]);
            batch_field_retain(&kept[next++]);
            loader_release(loader, batch);
        }
        assert_int_equal(items, SAMPLES);
        assert_true(grows == (errors == 0));
        loader_close(loader);
        for (; first < next; first++) {
            assert_true(hash_64(kept[first].data, kept[first].shape[0]) == hashes[first]);
            batch_memory_release(kept[first].memory);
        }
        assert_int_equal(late_device_used_bytes(device), 0);
        device_close(device);
    }
}

static void count_growth(void *context, enum log_level level, const char *line)
{
    int *count = context;
    *count += level == LOG_WARN && strstr(line, "beyond its memory budget");
}

/* Micro-batches that are larger than the mean wait for earlier ones instead. */
static void a_loader_does_not_grow_if_nothing_is_kept(void **state)
{
    for (uint64_t micro = 1; micro <= 12; micro++) {
        struct loader_options options = record_options(*state, LOADER_RECORD);
        struct delivery expected, delivered;
        int growths = 0;
        const struct log log = {.write = count_growth, .context = &growths};
        options.batching = (struct batching){.global = 2 * micro, .micro = micro, .ranks = 1};
        consume_all(&options, &expected, NULL, NULL);
        options.batches_ahead = 2 + micro % 3;
        options.memory_bytes = fixture_memory_for_long_reads(&options, 0) + (64 << 10);
        options.keep = LOADER_KEEP_GROW;
        options.log = &log;
        consume_all(&options, &delivered, NULL, NULL);
        assert_true(delivered.hash == expected.hash);
        assert_int_equal(growths, 0);
        delivery_free(&expected);
        delivery_free(&delivered);
    }
}

/* One sample's field is larger than the arena for fields, and then than all memory. */
static void a_large_field_uses_the_rest_of_the_memory(void **state)
{
    (void)state;
    static const struct loader_field file = {
        .name = "file", .from = "jpg", .decode = LOADER_FIELD_BYTES};
    struct fixture_options made = fixture_options_default(200);
    struct fixture fixture;
    struct delivery delivered, expected;
    struct err err;
    made.oversized_sample = 123;
    made.oversized_bytes = 12 << 20;
    fixture_make_images(&fixture, &made);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_RECORD);
    options.fields = &file;
    options.fields_count = 1;
    options.memory_bytes = 256 << 20;
    consume_all(&options, &expected, NULL, NULL);
    options.memory_bytes = 48 << 20;
    consume_all(&options, &delivered, NULL, NULL);
    assert_true(delivered.hash == expected.hash);
    assert_string_equal(delivered.text, expected.text);
    options.memory_bytes = 8 << 20;
    assert_int_equal(consume_until_error(&options, &err), -ENOBUFS);
    assert_non_null(strstr(err.what, "do not fit the loader's memory"));
    assert_true(err.advice[0]);
    delivery_free(&delivered);
    delivery_free(&expected);
    fixture_remove(&fixture);
}

/* Takes all batches and keeps an oversized field until loader_next demands its release. Returns the
 * number of items. */
static uint32_t keep_large_field(const struct loader_options *options, uint64_t large_bytes)
{
    struct batch_memory *kept = NULL;
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint32_t items = 0;
    int status;
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) != LOADER_END) {
        if (status == -ENOBUFS && kept) {
            batch_memory_release(kept);
            kept = NULL;
            continue;
        }
        assert_ok(status < 0 ? status : 0, &err);
        if (!kept && batch->fields[0].shape[0] > large_bytes)
            kept = batch_field_retain(&batch->fields[0]);
        items += batch->items_count;
        loader_release(loader, batch);
    }
    batch_memory_release(kept);
    loader_close(loader);
    return items;
}

/* The field of an oversized sample is kept until the sample's next epoch, which then lacks memory
 * for the field or, with more memory, for the read. */
static void a_kept_large_field_delays_the_next(void **state)
{
    (void)state;
    static const struct loader_field file = {
        .name = "file", .from = "jpg", .decode = LOADER_FIELD_BYTES};
    enum { COUNT = 40, EPOCHS = 3 };
    struct fixture_options made = fixture_options_default(COUNT);
    struct fixture fixture;
    made.samples_per_shard = COUNT / 2;
    made.oversized_sample = COUNT - 10;
    made.oversized_bytes = 6 << 20;
    made.pad_bytes = 1 << 20; /* too much to stay in memory */
    fixture_make_images(&fixture, &made);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_RECORD);
    options.fields = &file;
    options.fields_count = 1;
    options.batches_ahead = 2;
    options.order = ORDER_SEQUENTIAL;
    options.epochs_max = EPOCHS;
    for (uint64_t mib = 16; mib <= 22; mib += 2) {
        options.memory_bytes = mib << 20;
        assert_int_equal(keep_large_field(&options, made.oversized_bytes), EPOCHS * COUNT);
    }
    fixture_remove(&fixture);
}

static void memory_is_not_reused_before_its_last_use_ends(void **state)
{
    struct loader_options options = record_options(*state, LOADER_RECORD);
    struct device_stream *stream;
    struct delivery expected, delivered = {0};
    const struct batch *batch;
    struct loader *loader;
    struct device *device;
    struct err err;
    consume_all(&options, &expected, NULL, NULL);
    late_device_open(&device);
    assert_ok(device->ops->stream_open(device, &stream, &err), &err);
    options.device = device;
    options.batches_ahead = 2;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    struct batch_field captions = *batch_field_named(batch, "caption");
    uint64_t hash = hash_64(captions.data, captions.shape[0]);
    delivery_add(&delivered, batch);
    assert_ok(batch_memory_record_stream(captions.memory, stream, &err), &err);
    while (!loader_ready(loader))
        gate_pause();
    gate_shut(&late_device_gate);
    loader_release(loader, batch);
    gate_wait_for_threads(&late_device_gate, 1);
    assert_true(hash_64(captions.data, captions.shape[0]) == hash);
    gate_open(&late_device_gate);
    consume(loader, &delivered, UINT64_MAX);
    assert_true(delivered.hash == expected.hash);
    loader_close(loader);
    device->ops->stream_close(device, stream);
    assert_int_equal(late_device_used_bytes(device), 0);
    device_close(device);
    delivery_free(&expected);
    delivery_free(&delivered);
}

/* A batch of fields outlives its loader. */
static void a_batch_outlives_its_loader(void **state)
{
    struct loader_options options = record_options(*state, LOADER_RECORD);
    struct delivery before = {0}, after = {0};
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    delivery_add(&before, batch);
    loader_close(loader);
    delivery_add(&after, batch);
    assert_true(before.hash == after.hash);
    loader_release(loader, batch);
    delivery_free(&before);
    delivery_free(&after);
}

/* After loader_close, a kept label holds none of the fields' memory. */
static void a_kept_label_outlives_the_memory_of_fields(void **state)
{
    static const char *const names[] = {"label", "caption"};
    for (int i = 0; i < 2; i++) {
        struct loader_options options = record_options(*state, LOADER_IMAGE);
        const struct batch *batch;
        struct loader *loader;
        struct device *device;
        struct err err;
        late_device_open(&device);
        options.device = device;
        assert_ok(loader_open(&options, &loader, &err), &err);
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        struct batch_memory *kept = batch_field_retain(batch_field_named(batch, names[i]));
        loader_release(loader, batch);
        loader_close(loader);
        assert_true((late_device_used_bytes(device) > 4096) == (i == 1));
        assert_true(late_device_used_bytes(device) > 0);
        batch_memory_release(kept);
        assert_int_equal(late_device_used_bytes(device), 0);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_as_stored),
        cmocka_unit_test(images_have_more_fields),
        cmocka_unit_test(ranks_and_restarts_deliver_the_same),
        cmocka_unit_test(empty_and_padded_batches_have_all_fields),
        cmocka_unit_test(values_come_from_json_or_are_defaults),
        cmocka_unit_test(json_is_as_stored_or_compact),
        cmocka_unit_test(wrong_values_are_bad_samples),
        cmocka_unit_test(only_requested_fields_are_read),
        cmocka_unit_test(bad_fields_are_replaced),
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(values_of_failed_substitutes_are_freed),
        cmocka_unit_test(substitutes_do_not_add_up),
        cmocka_unit_test(the_first_shard_may_be_damaged),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(keeping_a_field_gives_enobufs_or_grows),
        cmocka_unit_test(a_loader_does_not_grow_if_nothing_is_kept),
        cmocka_unit_test(a_large_field_uses_the_rest_of_the_memory),
        cmocka_unit_test(a_kept_large_field_delays_the_next),
        cmocka_unit_test(memory_is_not_reused_before_its_last_use_ends),
        cmocka_unit_test(a_batch_outlives_its_loader),
        cmocka_unit_test(a_kept_label_outlives_the_memory_of_fields),
    };
    return cmocka_run_group_tests(tests, make_records, fixture_tear_down);
}
