/*
 * delivery — tests the delivery guarantee on shards, for one dataset and for a mix: with any number
 * of ranks and workers, any batch size and any resumes, each epoch is delivered completely, exactly
 * once, and in the same global batches.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Fields "bin" of PADS[d] bytes distinguish the datasets. Only the first has whole batches of
 * 24. */
enum { DATASETS = 3, FIRST_EPOCH = 2, EPOCHS = 2, EPOCH_SAMPLES_MAX = 512 };
static const uint64_t sizes[DATASETS] = {240, 35, 100}, pads[DATASETS] = {8, 16, 24};

struct datasets {
    struct fixture fixtures[DATASETS];
    struct loader_source mix[DATASETS];
};

static int make_data(void **state)
{
    struct datasets *data = calloc(1, sizeof *data);
    for (int d = 0; d < DATASETS; d++) {
        struct fixture_options options = fixture_options_default(sizes[d]);
        options.pad_bytes = pads[d];
        options.samples_per_shard = 17;
        fixture_make_images(&data->fixtures[d], &options);
        data->mix[d] =
            (struct loader_source){.path = data->fixtures[d].folder, .weight = 3 - (uint64_t)d};
    }
    *state = data;
    return 0;
}

static int remove_data(void **state)
{
    struct datasets *data = *state;
    for (int d = 0; d < DATASETS; d++)
        fixture_remove(&data->fixtures[d]);
    free(data);
    return 0;
}

static struct loader_options make_options(const struct datasets *data, uint32_t datasets)
{
    struct loader_options options = fixture_loader_options(&data->fixtures[0], LOADER_BYTES);
    if (datasets > 1) {
        options.dataset = NULL;
        options.mix = data->mix;
        options.mix_count = datasets;
    }
    options.epoch = FIRST_EPOCH;
    options.memory_bytes = 16 << 20;
    return options;
}

/* How often each position of the epochs was delivered, and its sample. */
struct record {
    uint8_t count[EPOCHS][EPOCH_SAMPLES_MAX];
    struct sample_ref refs[EPOCHS][EPOCH_SAMPLES_MAX];
};

static void note_batch(struct record *record, const struct batching *batching,
                       const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        uint32_t epoch = batch->epoch - FIRST_EPOCH;
        assert_true(epoch < EPOCHS && item->position < EPOCH_SAMPLES_MAX);
        assert_int_equal(item->position / batching->global, batch->step);
        assert_int_equal(item->position % batching->global % batching_micros(batching),
                         batch->micro);
        record->count[epoch][item->position]++;
        record->refs[epoch][item->position] = item->ref;
        char key[32];
        int bytes = snprintf(key, sizeof key, "k%06d", (int)item->ref.sample);
        assert_int_equal(item->key_bytes, bytes);
        assert_memory_equal(item->key, key, (size_t)bytes);
        assert_string_equal(item->fields[0].extension, "bin");
        assert_int_equal(item->fields[0].bytes, pads[item->ref.dataset]);
        assert_int_equal(((const uint8_t *)item->fields[0].data)[1],
                         (uint8_t)(item->ref.sample * 31 + 1));
    }
}

/* Runs all ranks, one after another; returns their common final cursor, with the sums of their
 * digests. */
static struct cursor run_ranks(struct loader_options options, uint32_t ranks, struct record *record)
{
    struct cursor sum = {0};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct loader *loader;
        struct err err;
        const struct batch *batch;
        int status;
        options.batching.rank = rank;
        options.batching.ranks = ranks;
        options.batching.interleaved = ranks % 2 == 0;
        options.workers = 1 + (rank + ranks) % 4;
        options.set_digest = rank == 0 ? options.set_digest : 0;
        options.sequence_digest = rank == 0 ? options.sequence_digest : 0;
        assert_ok(loader_open(&options, &loader, &err), &err);
        while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
            note_batch(record, &options.batching, batch);
            loader_release(loader, batch);
        }
        assert_ok(status, &err);
        struct cursor cursor = loader_cursor(loader);
        assert_true(rank == 0 || (cursor.epoch == sum.epoch && cursor.position == sum.position &&
                                  cursor.fingerprint == sum.fingerprint));
        cursor.set_digest += sum.set_digest;
        cursor.sequence_digest += sum.sequence_digest;
        sum = cursor;
        loader_close(loader);
    }
    return sum;
}

/* Computes the record from the configuration, without a loader. */
static uint64_t expect_record(const struct loader_options *options, uint32_t datasets,
                              struct record *record, struct cursor *ret_sums)
{
    struct loader *loader;
    struct sampler *sampler;
    struct sampler_source sources[DATASETS];
    const struct loader_dataset *list;
    struct err err;
    assert_ok(loader_open(options, &loader, &err), &err);
    assert_int_equal(loader_datasets(loader, &list), datasets);
    for (uint32_t d = 0; d < datasets; d++) {
        assert_int_equal(list[d].order.samples, sizes[d]);
        sources[d] = (struct sampler_source){.order = list[d].order, .weight = list[d].weight};
    }
    assert_ok(sampler_open_mix(sources, datasets, loader_shape(loader).order.lanes, &sampler, &err),
              &err);
    uint64_t samples = sampler_samples(sampler), global = options->batching.global;
    uint64_t end = options->drop_last ? samples / global * global : samples;
    assert_int_equal(loader_shape(loader).samples, samples);
    loader_close(loader);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        for (uint64_t p = 0; p < end; p++) {
            struct sample_ref ref = sampler_at(sampler, FIRST_EPOCH + e, p);
            record->count[e][p] = 1;
            record->refs[e][p] = ref;
            ret_sums->set_digest += digest_set_term(ref);
            ret_sums->sequence_digest += digest_sequence_term(FIRST_EPOCH + e, p, ref);
        }
    }
    sampler_close(sampler);
    return end;
}

static int compare_refs(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct sample_ref));
}

/* No sample repeats within a dataset's epoch; a single dataset delivers each sample once per
 * epoch. */
static void check_no_repeats(const struct record *record, uint32_t datasets, uint64_t end)
{
    static struct sample_ref all[EPOCHS * EPOCH_SAMPLES_MAX];
    size_t count = 0;
    for (uint32_t e = 0; e < EPOCHS; e++)
        for (uint64_t p = 0; p < end; p++)
            all[count++] = record->refs[e][p];
    qsort(all, count, sizeof all[0], compare_refs);
    for (size_t i = 1; i < count; i++)
        assert_true(compare_refs(&all[i - 1], &all[i]) != 0);
    for (size_t i = 0; i < count; i++)
        assert_true(all[i].sample < sizes[all[i].dataset]);
    assert_true(datasets > 1 || count <= EPOCHS * sizes[0]);
}

struct shape {
    uint32_t datasets;
    uint64_t global, micro;
    bool drop_last;
};

static const struct shape shapes[] = {{1, 24, 3, false}, {1, 32, 4, false}, {1, 32, 4, true},
                                      {3, 25, 1, false}, {3, 40, 5, false}, {3, 40, 5, true}};

static void every_epoch_is_delivered_once_for_any_ranks_workers_and_resumes(void **state)
{
    const struct datasets *data = *state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 8};
    static struct record expected, found;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct loader_options options = make_options(data, shapes[s].datasets);
        struct cursor sums = {0};
        options.batching =
            (struct batching){.global = shapes[s].global, .micro = shapes[s].micro, .ranks = 1};
        options.drop_last = shapes[s].drop_last;
        memset(&expected, 0, sizeof expected);
        uint64_t end = expect_record(&options, shapes[s].datasets, &expected, &sums);
        check_no_repeats(&expected, shapes[s].datasets, end);
        uint64_t steps = (end + shapes[s].global - 1) / shapes[s].global;
        for (size_t w = 0; w < sizeof ranks / sizeof ranks[0]; w++) {
            /* stopped after this many steps (in the first epoch, at its end, or in the second) and
             * resumed on other ranks */
            static const uint64_t parts[] = {0, 1, 3, 4, 6};
            uint64_t cut = parts[w] * steps / 4;
            struct cursor at = {.epoch = FIRST_EPOCH};
            struct loader_options rest = options;
            memset(&found, 0, sizeof found);
            if (cut > 0) {
                struct loader_options part = options;
                uint64_t second = cut > steps ? cut - steps : 0;
                part.positions_max =
                    second ? end + second * shapes[s].global : cut * shapes[s].global;
                part.positions_max = part.positions_max < end || second ? part.positions_max : end;
                part.epochs_max = EPOCHS;
                at = run_ranks(part, ranks[w], &found);
            }
            rest.epoch = at.epoch;
            rest.position = at.position;
            rest.set_digest = at.set_digest;
            rest.sequence_digest = at.sequence_digest;
            rest.epochs_max = FIRST_EPOCH + EPOCHS - at.epoch;
            at = run_ranks(rest, ranks[(w + 2) % 5], &found);
            assert_memory_equal(found.count, expected.count, sizeof expected.count);
            assert_memory_equal(found.refs, expected.refs, sizeof expected.refs);
            assert_true(at.set_digest == sums.set_digest &&
                        at.sequence_digest == sums.sequence_digest);
            assert_int_equal(at.epoch, FIRST_EPOCH + EPOCHS);
            assert_int_equal(at.position, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_delivered_once_for_any_ranks_workers_and_resumes),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
