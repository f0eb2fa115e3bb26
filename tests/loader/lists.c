/*
 * lists — tests hand-made shard lists: from several datasets, with empty shards, with repeated
 * keys.
 */
#include "tests/loader/fixture.h"

#include "io/file_util.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS_MAX = 16, SAMPLES_MAX = 256, RANKS_MAX = 3 };

/* A shard list in a fixture's folder. */
struct list {
    const struct fixture *home;
    struct dataset merged; /* fields, classes and text are those of `home` */
    struct dataset *opened[2];
    uint32_t opened_count;
    struct dataset_shard shards[SHARDS_MAX];
    char urls[SHARDS_MAX][IO_PATH_BYTES_MAX];
    char path[TEST_PATH_BYTES_MAX + 16];
};

static struct dataset_shard *add_shard(struct list *list)
{
    uint64_t number = list->merged.shards_count++;
    assert_true(number < SHARDS_MAX);
    list->shards[number].url = list->urls[number];
    return &list->shards[number];
}

static struct dataset *open_single_shard(struct list *list, const struct fixture *fixture)
{
    struct dataset **dataset = &list->opened[list->opened_count++];
    struct err err;
    assert_ok(dataset_open(fixture->io, fixture->folder, dataset, &err), &err);
    return *dataset;
}

static void list_begin(struct list *list, const struct fixture *home)
{
    memset(list, 0, sizeof *list);
    list->home = home;
    list->merged = *open_single_shard(list, home);
    list->merged.shards = list->shards;
    list->merged.samples = list->merged.shards_count = list->merged.text.tokens = 0;
    snprintf(list->path, sizeof list->path, "%s/merged.json", home->folder);
}

/* Adds shards [first, end) of the dataset. */
static void list_add(struct list *list, const struct dataset *dataset, uint64_t first, uint64_t end)
{
    struct err err;
    for (uint64_t s = first; s < end; s++) {
        struct dataset_shard *shard = add_shard(list);
        char *url = shard->url;
        assert_ok(dataset_shard_path(dataset, s, url, &err), &err);
        *shard = dataset->shards[s];
        shard->url = url;
        list->merged.samples += shard->samples;
    }
}

/* Adds a shard of samples with these keys; the class of each is its number in the list. count 0: an
 * empty shard. */
static void list_add_new_shard(struct list *list, const char *const *keys, uint64_t count)
{
    struct dataset_shard *shard = add_shard(list);
    struct shard_writer *writer;
    struct shard_summary summary;
    struct err err;
    char path[TEST_PATH_BYTES_MAX + 32];
    int folder_bytes = snprintf(path, sizeof path, "%s/", list->home->folder);
    snprintf(shard->url, IO_PATH_BYTES_MAX, "written-%d.tar", (int)list->merged.shards_count);
    snprintf(path + folder_bytes, sizeof path - (size_t)folder_bytes, "%.31s", shard->url);
    assert_ok(shard_writer_open(list->home->io, path, true, &writer, &err), &err);
    for (uint64_t i = 0; i < count; i++) {
        char number[24];
        int bytes = snprintf(number, sizeof number, "%" PRIu64, list->merged.samples + i);
        assert_ok(shard_writer_begin_sample(writer, keys[i], &err), &err);
        assert_ok(shard_writer_add_field(writer, "cls", number, (size_t)bytes, &err), &err);
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    shard->samples = summary.samples;
    shard->file_bytes = summary.file_bytes;
    shard->xxh3 = summary.xxh3;
    shard->index_crc32c = summary.index_crc32c;
    shard->index_offset = summary.index_offset;
    list->merged.samples += summary.samples;
}

static void list_end(struct list *list)
{
    struct str text = {0};
    struct err err;
    assert_ok(dataset_encode(&list->merged, &text, &err), &err);
    assert_ok(io_write_file(list->home->io, list->path, text.data, text.bytes, true, &err), &err);
    str_deinit(&text);
    while (list->opened_count > 0)
        dataset_close(list->opened[--list->opened_count]);
}

/* The last members of both texts are short, and together long enough for one more full member, so
 * totals alone cannot distinguish them from one text. */
static void two_texts_in_one_list_deliver_the_windows_of_both(void **state)
{
    (void)state;
    enum { MEMBER = 1001, TOKENS = 8 * 1000 + 700, BLOCK = 100, WINDOWS = 8 * 10 + 6 };
    static struct list list;
    struct fixture first, second;
    struct delivery delivered[2];
    fixture_make_text(&first, TOKENS, MEMBER, 3);
    fixture_make_text(&second, TOKENS, MEMBER, 3);
    struct loader_options options = fixture_loader_options(&first, LOADER_TOKENS);
    options.dataset = list.path;
    options.text.block = BLOCK;
    for (int tells_last = 0; tells_last < 2; tells_last++) {
        list_begin(&list, &first);
        list_add(&list, list.opened[0], 0, list.opened[0]->shards_count);
        const struct dataset *other = open_single_shard(&list, &second);
        list_add(&list, other, 0, other->shards_count);
        list.merged.text.tokens = 2 * TOKENS;
        for (uint64_t i = 0; !tells_last && i < list.merged.shards_count; i++)
            list.shards[i].last_tokens = 0;
        list_end(&list);
        consume_all(&options, &delivered[tells_last], NULL, NULL);
        assert_int_equal(delivered[tells_last].items, 2 * WINDOWS);
    }
    assert_true(delivered[0].hash == delivered[1].hash);
    assert_string_equal(delivered[0].text, delivered[1].text);
    delivery_free(&delivered[0]);
    delivery_free(&delivered[1]);
    fixture_remove(&first);
    fixture_remove(&second);
}

static void check_item(const struct batch *batch, const struct batch_item *item)
{
    char key[32];
    uint64_t sample = item->ref.sample;
    /* for text, the content identifies the member */
    if (batch->fields_count == 1) {
        const int32_t *window =
            (const int32_t *)batch->fields[0].data +
            (size_t)(item - batch->items) * (size_t)(batch->fields[0].stride_bytes[0] / 4);
        uint64_t block = batch->fields[0].shape[1] - 1;
        for (uint64_t k = 0; k <= block; k++)
            assert_int_equal(window[k], fixture_token(sample * block + k));
        return;
    }
    int bytes = snprintf(key, sizeof key, "k%06d", (int)sample);
    assert_int_equal(item->key_bytes, bytes);
    assert_memory_equal(item->key, key, item->key_bytes);
    if (item->fields_count > 0)
        assert_int_equal(((const char *)item->fields[0].data)[0],
                         '0' + (int)(sample % FIXTURE_CLASSES));
}

/* Runs each rank to its end and checks that every sample is delivered once. */
static void expect_each_once(struct loader_options options, uint32_t ranks, uint64_t samples)
{
    uint8_t seen[SAMPLES_MAX] = {0};
    assert_true(samples <= SAMPLES_MAX);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        int status;
        options.batching.rank = rank;
        options.batching.ranks = ranks;
        assert_ok(loader_open(&options, &loader, &err), &err);
        assert_int_equal(loader_shape(loader).samples, samples);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++) {
                seen[batch->items[i].ref.sample]++;
                check_item(batch, &batch->items[i]);
            }
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        loader_close(loader);
    }
    for (uint64_t i = 0; i < samples; i++)
        assert_int_equal(seen[i], 1);
}

/* Adds the fixture's shards and four empty shards: one at the start, two in the middle, one at the
 * end. */
static void add_empty_shards(struct list *list, const struct fixture *fixture)
{
    list_begin(list, fixture);
    const struct dataset *dataset = list->opened[0];
    list_add_new_shard(list, NULL, 0);
    list_add(list, dataset, 0, 2);
    list_add_new_shard(list, NULL, 0);
    list_add_new_shard(list, NULL, 0);
    list_add(list, dataset, 2, dataset->shards_count);
    list_add_new_shard(list, NULL, 0);
    list->merged.text.tokens = dataset->text.tokens;
    list_end(list);
}

static void empty_shards_change_nothing(void **state)
{
    (void)state;
    enum { SAMPLES = 150, MEMBER = 1001, BLOCK = 100, TOKENS = 10 * 1000 + 1 };
    static struct list list;
    struct fixture pictures, text;
    fixture_make_default_images(&pictures, SAMPLES);
    fixture_make_text(&text, TOKENS, MEMBER, 2);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_TOKENS; decode++) {
        bool is_text = decode == LOADER_TOKENS;
        const struct fixture *fixture = is_text ? &text : &pictures;
        struct loader_options options = fixture_loader_options(fixture, decode);
        add_empty_shards(&list, fixture);
        options.dataset = list.path;
        options.text.block = BLOCK;
        for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
            for (int shuffled = 0; shuffled < 2; shuffled++) {
                options.order = shuffled ? loader_options_default().order : ORDER_SEQUENTIAL;
                expect_each_once(options, ranks, is_text ? (TOKENS - 1) / BLOCK : SAMPLES);
            }
    }
    fixture_remove(&pictures);
    fixture_remove(&text);
}

/* Samples with equal keys, adjacent, in the same shard, or in different shards, are separate
 * samples, identified by number. */
static void samples_with_equal_keys_are_delivered_with_their_own_bytes(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "a", "b", "k000003", "a"}, *const again[] = {"a", "c",
                                                                                         "b"};
    enum { PICTURES = 5, KEYS = 5, AGAIN = 3, SAMPLES = PICTURES + KEYS + AGAIN };
    static struct list list;
    struct fixture fixture;
    fixture_make_default_images(&fixture, PICTURES);
    list_begin(&list, &fixture);
    list_add(&list, list.opened[0], 0, 1);
    list_add_new_shard(&list, keys, KEYS);
    list_add_new_shard(&list, again, AGAIN);
    list_end(&list);
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        uint8_t seen[SAMPLES] = {0};
        int status;
        options.dataset = list.path;
        options.bad_policy = LOADER_BAD_STOP;
        options.order = shuffled ? options.order : ORDER_SEQUENTIAL;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            for (uint32_t i = 0; i < batch->items_count; i++) {
                const struct batch_item *item = &batch->items[i];
                const struct batch_bytes *class = &item->fields[0];
                uint64_t sample = item->ref.sample;
                char number[24], key[24];
                int bytes = snprintf(number, sizeof number, "%" PRIu64, sample);
                int key_bytes = sample < PICTURES ? snprintf(key, sizeof key, "k%06d", (int)sample)
                                                  : snprintf(key, sizeof key, "%s",
                                                             sample < PICTURES + KEYS
                                                                 ? keys[sample - PICTURES]
                                                                 : again[sample - PICTURES - KEYS]);
                assert_int_equal(item->key_bytes, key_bytes);
                assert_memory_equal(item->key, key, (size_t)key_bytes);
                assert_string_equal(class->extension, "cls");
                assert_int_equal(class->bytes, bytes);
                assert_memory_equal(class->data, number, (size_t)bytes);
                seen[sample]++;
            }
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        loader_close(loader);
        for (int i = 0; i < SAMPLES; i++)
            assert_int_equal(seen[i], 1);
    }
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_texts_in_one_list_deliver_the_windows_of_both),
        cmocka_unit_test(empty_shards_change_nothing),
        cmocka_unit_test(samples_with_equal_keys_are_delivered_with_their_own_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
