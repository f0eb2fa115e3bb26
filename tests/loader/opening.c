/*
 * opening — tests of when a loader opens shards and how much it reads for that, and of a
 * dataset.json with a wrong or no index_offset.
 */
#include "tests/loader/fixture.h"

#include "tests/support/read_log.h"

#include <errno.h>
#include <string.h>

enum { SAMPLES = 150, SAMPLES_A_SHARD = 10, SHARDS = SAMPLES / SAMPLES_A_SHARD };

static int set_up(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = SAMPLES_A_SHARD;
    return fixture_set_up_with_options(state, &options);
}

/* Edits dataset.json with sed. */
static void edit_list(const struct fixture *fixture, const char *expression)
{
    assert_int_equal(test_run("chmod u+w '%s/dataset.json' && sed -i '%s' '%s/dataset.json'",
                              fixture->folder, expression, fixture->folder),
                     0);
}

/* Runs the loader to its end and checks the reads of the indexes of shards [0, reached). */
static void expect_exact_reads(struct fixture *fixture, const struct loader_options *options,
                               uint64_t reached)
{
    struct delivery delivered;
    struct dataset *dataset;
    struct err err;
    read_log_begin(fixture->io);
    consume_all(options, &delivered, NULL, NULL);
    read_log_end(fixture->io);
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        const struct dataset_shard *shard = &dataset->shards[i];
        struct read_log_sum sum = read_log_sum(shard->url);
        assert_int_equal(sum.opens_count, i < reached);
        assert_int_equal(sum.tail_reads_count, i < reached);
        if (i < reached)
            assert_int_equal(sum.tail_read_bytes, shard->file_bytes - shard->index_offset);
    }
    dataset_close(dataset);
    delivery_free(&delivered);
}

static void each_shard_is_opened_with_one_read_when_it_is_reached(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.order = ORDER_SEQUENTIAL;
    expect_exact_reads(fixture, &options, SHARDS);
    options.positions_max = 24;
    expect_exact_reads(fixture, &options, 3);
    options.order_only = true;
    struct loader *loader;
    struct err err;
    read_log_begin(fixture->io);
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(read_log_sum("shard-").opens_count, 0);
    loader_close(loader);
    read_log_end(fixture->io);
}

static void text_opens_shards_early_only_if_the_list_lacks_their_tokens(void **state)
{
    (void)state;
    enum { MEMBERS = 8, MEMBER = 1001 };
    struct fixture fixture;
    struct loader *loader;
    struct err err;
    fixture_make_text(&fixture, MEMBERS * (MEMBER - 1) + 1, MEMBER, 2);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    options.order_only = true;
    for (int is_counted = 0; is_counted < 2; is_counted++) {
        read_log_begin(fixture.io);
        assert_ok(loader_open(&options, &loader, &err), &err);
        struct read_log_sum sum = read_log_sum("shard-");
        assert_int_equal(sum.opens_count, is_counted ? MEMBERS / 2 : 0);
        assert_int_equal(sum.tail_reads_count, sum.opens_count);
        loader_close(loader);
        read_log_end(fixture.io);
        edit_list(&fixture, "s/,\"last_tokens\":[0-9]*//");
    }
    fixture_remove(&fixture);
}

static void a_list_without_index_offset_delivers_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct delivery delivered[2];
    for (int i = 0; i < 2; i++) {
        consume_all(&options, &delivered[i], NULL, NULL);
        edit_list(fixture, "s/,\"index_offset\":[0-9]*//");
    }
    assert_int_equal(delivered[0].items, delivered[1].items);
    assert_true(delivered[0].hash == delivered[1].hash);
    assert_string_equal(delivered[0].text, delivered[1].text);
    delivery_free(&delivered[0]);
    delivery_free(&delivered[1]);
}

static void a_wrong_index_offset_stops_the_run_and_names_the_shard(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    struct err err;
    options.bad_policy = LOADER_BAD_STOP;
    edit_list(fixture, "/shard-000007/s/\"index_offset\":[0-9]*/\"index_offset\":1024/");
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.path, "shard-000007.tar"));
    assert_non_null(strstr(err.what, "index_offset"));
    assert_non_null(strstr(err.what, "expected 1024 as in dataset.json, found "));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_shard_is_opened_with_one_read_when_it_is_reached),
        cmocka_unit_test(text_opens_shards_early_only_if_the_list_lacks_their_tokens),
        CASE(a_list_without_index_offset_delivers_the_same),
        CASE(a_wrong_index_offset_stops_the_run_and_names_the_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
