/*
 * Selections of samples by the numbers in the index: conditions, and balanced classes.
 */
#include "tests/loader/fixture.h"
#include "tests/loader/read_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 250 }; /* in 7 shards */

static int set_up(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.with_numbers = true;
    options.without_label = 100;
    return fixture_set_up_with_options(state, &options);
}

static struct loader_options options_for(const struct fixture *fixture)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.epochs_max = 1;
    return options;
}

static double label_of(uint64_t sample)
{
    return sample == 100 ? NAN : (double)(sample % FIXTURE_CLASSES);
}

static bool high_score(uint64_t sample)
{
    return fixture_score(sample) >= 0.25;
}

static bool some_classes(uint64_t sample)
{
    return (label_of(sample) == 2 && fixture_score(sample) < 0) || label_of(sample) > 4.5;
}

static bool not_low_or_missing(uint64_t sample)
{
    return !(fixture_score(sample) < 0);
}

static bool last_shard(uint64_t sample) /* the others are empty of matches */
{
    return sample == 249;
}

/* 249 * 37 % 101 = 22 */
static const struct {
    const char *condition;
    bool (*matches)(uint64_t sample);
} conditions[] = {
    {"score >= 0.25", high_score},
    {"(label == 2 && score < 0) || label > 4.5", some_classes},
    {"!(score < 0)", not_low_or_missing},
    {"label == 4 && score > -0.285 && score < -0.275", last_shard},
};

static void conditions_select_the_samples_that_meet_them(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    uint64_t fingerprints[4];
    for (size_t c = 0; c < sizeof conditions / sizeof conditions[0]; c++) {
        uint32_t samples[SAMPLES], counts[SAMPLES] = {0};
        uint64_t wanted = 0;
        for (uint32_t i = 0; i < SAMPLES; i++)
            wanted += conditions[c].matches(i);
        options.selection.where = conditions[c].condition;
        uint64_t count = read_samples(&options, 1, 0, samples);
        if (count != wanted)
            fail_msg("%s: %" PRIu64 ", not %" PRIu64, options.selection.where, count, wanted);
        for (uint64_t i = 0; i < count; i++)
            counts[samples[i]]++;
        for (uint32_t i = 0; i < SAMPLES; i++)
            assert_int_equal(counts[i], conditions[c].matches(i));
        check_invariance(&options, samples, count);
        struct loader *loader;
        struct err err;
        assert_ok(loader_open(&options, &loader, &err), &err);
        assert_int_equal(loader_shape(loader).samples, count);
        fingerprints[c] = loader_shape(loader).fingerprint;
        loader_close(loader);
        for (size_t k = 0; k < c; k++)
            assert_true(fingerprints[k] != fingerprints[c]);
    }
}

static void a_condition_selects_among_keys(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    char path[TEST_PATH_BYTES_MAX + 16], text[SAMPLES * 10] = "";
    uint32_t samples[SAMPLES];
    uint64_t wanted = 0;
    snprintf(path, sizeof path, "%s.list", fixture->folder);
    for (uint32_t i = SAMPLES; i-- > 0;) {
        if (i % 3 == 0)
            sprintf(text + strlen(text), "k%06u\n", i);
        wanted += i % 3 == 0 && high_score(i);
    }
    test_write_file(path, text, strlen(text));
    options.selection.keys = path;
    options.selection.where = "score >= 0.25";
    options.order = ORDER_SEQUENTIAL;
    assert_int_equal(read_samples(&options, 1, 0, samples), wanted);
    for (uint64_t i = 0; i < wanted; i++) {
        assert_true(samples[i] % 3 == 0 && high_score(samples[i]));
        assert_true(i == 0 || samples[i] > samples[i - 1]);
    }
    check_invariance(&options, samples, wanted);
    unlink(path);
}

static void sizes_of_uncompressed_images_need_no_option(void **state)
{
    (void)state;
    struct fixture fixture;
    enum { COUNT = 30 };
    struct fixture_raw_options make = {.samples = COUNT, .with_rows = true};
    uint32_t samples[COUNT], width, height, wanted = 0;
    fixture_make_raw_images(&fixture, &make);
    struct loader_options options = options_for(&fixture);
    for (uint32_t i = 0; i < COUNT; i++) {
        fixture_raw_header(i, &width, &height, NULL);
        wanted += width > 200 && height < 300;
    }
    options.selection.where = "width > 200 && height < 300";
    assert_int_equal(read_samples(&options, 1, 0, samples), wanted);
    for (uint32_t i = 0; i < wanted; i++) {
        fixture_raw_header(samples[i], &width, &height, NULL);
        assert_true(width > 200 && height < 300);
    }
    assert_true(wanted > 0);
    fixture_remove(&fixture);
}

static void an_unknown_size_is_refused(void **state)
{
    const struct fixture *fixture = *state;
    char path[TEST_PATH_BYTES_MAX + 16];
    static uint8_t image[15 + 3 * 200 * 119];
    struct shard_raw_image rows = {.width = 200, .pixels_offset = 15};
    struct shard_writer *writer;
    struct shard_summary summary;
    struct loader *loader;
    struct err err;
    memcpy(image, "P6\n200 119\n255\n", 15);
    snprintf(path, sizeof path, "%s/rows.tar", fixture->folder);
    assert_ok(shard_writer_open(fixture->io, path, false, &writer, &err), &err);
    for (int i = 0; i < 2; i++) { /* the rows of the second image are not in the index */
        assert_ok(shard_writer_begin_sample(writer, i ? "b" : "a", &err), &err);
        assert_ok(shard_writer_add_raw_image(writer, "ppm", image, sizeof image,
                                             i ? (struct shard_raw_image){0} : rows, &err),
                  &err);
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    struct loader_options options = options_for(fixture);
    options.dataset = path;
    options.selection.where = "height > 1";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "the index does not have the height of sample \"b\"");
    unlink(path);
}

/* ---- Balance. ---- */

static void balanced_draws_are_those_of_inverse_class_sizes(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    char path[TEST_PATH_BYTES_MAX + 16], text[SAMPLES * 40] = "";
    uint32_t samples[2 * SAMPLES], weighted[2 * SAMPLES], counts[FIXTURE_CLASSES] = {0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        bool is_match = label_of(i) >= 0 && fixture_score(i) < 0.3;
        counts[i % FIXTURE_CLASSES] += is_match;
        count += is_match;
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        if (label_of(i) >= 0 && fixture_score(i) < 0.3)
            sprintf(text + strlen(text), "k%06u\t%.17g\n", i, 1.0 / counts[i % FIXTURE_CLASSES]);
    snprintf(path, sizeof path, "%s.list", fixture->folder);
    test_write_file(path, text, strlen(text));
    options.selection = (struct loader_selection){.weights = path, .repeat = 2};
    options.epoch = 3;
    assert_int_equal(read_samples(&options, 1, 0, weighted), 2 * count);
    options.selection = (struct loader_selection){
        .balance = "class", .where = "label >= 0 && score < 0.3", .repeat = 2};
    assert_int_equal(read_samples(&options, 1, 0, samples), 2 * count);
    assert_memory_equal(samples, weighted, 2 * count * sizeof *samples);
    check_invariance(&options, samples, 2 * count);
    options.selection.balance = "label";
    assert_int_equal(read_samples(&options, 2, 0, weighted), 2 * count);
    assert_memory_equal(samples, weighted, 2 * count * sizeof *samples);
    unlink(path);
}

/* Three classes of 36, 36 and few samples. */
static void balanced_classes_are_equally_frequent(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    enum { EPOCHS = 300 };
    uint32_t samples[SAMPLES];
    uint64_t draws = 0, by_class[3] = {0}, by_sample[SAMPLES] = {0}, sizes[3] = {0};
    options.selection.where = "label < 2 || (label == 2 && score > 0.2)";
    options.selection.balance = "class";
    for (options.epoch = 0; options.epoch < EPOCHS; options.epoch++) {
        uint64_t count = read_samples(&options, 1, 0, samples);
        for (uint64_t i = 0; i < count; i++) {
            by_class[samples[i] % FIXTURE_CLASSES]++;
            by_sample[samples[i]]++;
        }
        draws += count;
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        if (by_sample[i] > 0)
            sizes[i % FIXTURE_CLASSES]++;
    assert_true(sizes[0] > 2 * sizes[2] && sizes[2] > 3);
    /* each within five standard deviations of a binomial distribution */
    for (int c = 0; c < 3; c++) {
        double expected = (double)draws / 3;
        assert_true(fabs((double)by_class[c] - expected) < 5 * sqrt(expected * 2 / 3));
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        if (by_sample[i] == 0)
            continue;
        double p = 1.0 / 3 / (double)sizes[i % FIXTURE_CLASSES], expected = (double)draws * p;
        assert_true(fabs((double)by_sample[i] - expected) < 5 * sqrt(expected * (1 - p)));
    }
}

static void wrong_selections_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        struct loader_selection selection;
        const char *what, *found;
    } cases[] = {
        {{.where = "score > 0.5"},
         "no sample meets the condition score > 0.5",
         "250 samples, 28 without score"},
        {{.where = "score > 0 &&"}, "the condition is wrong at column 13", "the end"},
        {{.where = "score > 0 && size < 3"}, "the shard has no index field \"size\"", "size"},
        {{.where = "width > 0"}, "the shard has no index field \"width\"", "width"},
        {{.where = "class(\"none\")"}, "the condition is wrong at column 7", "\"\"none\")\""},
        {{.balance = "class"}, "the sample \"k000100\" has no class", "none"},
        {{.balance = "label"}, "the sample \"k000100\" has no class", "none"},
        {{.balance = "score"}, "the sample \"k000000\" has no class", "-0.5"},
        {{.balance = "size"}, "the shard has no index field \"size\"", "size"},
        {{.balance = "class", .weights = "w"},
         "samples are selected in ways that contradict each other",
         ""},
        {{.where = "score > 0", .weights = "w"},
         "samples are selected in ways that contradict each other",
         ""},
        {{.where = "score > 0", .order = "w"},
         "samples are selected in ways that contradict each other",
         ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader_options options = options_for(fixture);
        struct loader *loader;
        struct err err = {0};
        options.selection = cases[i].selection;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        if (strcmp(err.what, cases[i].what) != 0 || strcmp(err.found, cases[i].found) != 0)
            fail_msg("case %zu: %s, found %s", i, err.what, err.found);
        assert_true(err.advice[0]);
    }
    struct fixture plain; /* without numbers */
    struct loader *loader;
    struct err err;
    fixture_make_default_images(&plain, 10);
    struct loader_options options = options_for(&plain);
    options.selection.balance = "class";
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "the shard has no index field \"label\"");
    assert_non_null(strstr(err.advice, "--index-field"));
    fixture_remove(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(conditions_select_the_samples_that_meet_them, set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_condition_selects_among_keys, set_up, fixture_tear_down),
        cmocka_unit_test(sizes_of_uncompressed_images_need_no_option),
        cmocka_unit_test_setup_teardown(an_unknown_size_is_refused, set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(balanced_draws_are_those_of_inverse_class_sizes, set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(balanced_classes_are_equally_frequent, set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(wrong_selections_are_refused, set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
