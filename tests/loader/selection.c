/*
 * Selections of samples: by keys, in a given order, drawn by weight, and repeated.
 */
#include "tests/loader/fixture.h"
#include "tests/loader/read_samples.h"

#include "base/philox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 90, LISTED = 40, PATH_BYTES = TEST_PATH_BYTES_MAX + 16 };

static const char *list_path(const struct fixture *fixture)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.list", fixture->folder);
    return path;
}

static const char *write_list(const struct fixture *fixture, const char *text)
{
    test_write_file(list_path(fixture), text, strlen(text));
    return list_path(fixture);
}

static int remove_list(void **state)
{
    unlink(list_path(*state));
    return fixture_tear_down(state);
}

static int set_up(void **state)
{
    return fixture_set_up(state, SAMPLES);
}

static struct loader_options options_for(const struct fixture *fixture)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.epochs_max = 1;
    return options;
}

static void keys_select_each_listed_sample_once(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    char text[LISTED * 10] = "";
    uint32_t samples[LISTED], next[LISTED], counts[SAMPLES] = {0};
    for (uint32_t i = 0; i < LISTED; i++) /* not in order */
        sprintf(text + strlen(text), "k%06u\r\n", (i * 53 + 7) % SAMPLES);
    options.selection.keys = write_list(fixture, text);
    assert_int_equal(read_samples(&options, 1, 0, samples), LISTED);
    for (uint32_t i = 0; i < LISTED; i++)
        counts[samples[i]]++;
    for (uint32_t i = 0; i < LISTED; i++)
        assert_int_equal(counts[(i * 53 + 7) % SAMPLES], 1);
    check_invariance(&options, samples, LISTED);
    options.epoch = 1;
    assert_int_equal(read_samples(&options, 1, 0, next), LISTED);
    assert_memory_not_equal(samples, next, sizeof samples);
    options.epoch = 0;
    options.order = ORDER_SEQUENTIAL; /* in dataset order */
    assert_int_equal(read_samples(&options, 1, 0, samples), LISTED);
    for (uint32_t i = 1; i < LISTED; i++)
        assert_true(samples[i] > samples[i - 1]);
}

static void all_keys_are_the_whole_dataset(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    char text[SAMPLES * 10] = "";
    struct delivery all, listed;
    struct cursor at_all, at_listed;
    options.image.crop.kind = CROP_RANDOM;
    consume_all(&options, &all, NULL, &at_all);
    for (uint32_t i = SAMPLES; i-- > 0;)
        sprintf(text + strlen(text), "k%06u\n", i);
    options.selection.keys = write_list(fixture, text);
    consume_all(&options, &listed, NULL, &at_listed);
    assert_string_equal(all.text, listed.text);
    assert_true(all.hash == listed.hash);
    assert_true(at_all.fingerprint != at_listed.fingerprint);
    delivery_free(&all);
    delivery_free(&listed);
}

static void an_order_is_followed_with_its_repetitions(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    enum { LINES = 200 };
    char text[LINES * 10] = "";
    uint32_t expected[LINES], samples[LINES];
    for (uint32_t i = 0; i < LINES; i++) {
        expected[i] = philox(3, 0, i).word[0] % SAMPLES;
        sprintf(text + strlen(text), "k%06u\n", expected[i]);
    }
    options.selection.order = write_list(fixture, text);
    options.epoch = 4;
    assert_int_equal(read_samples(&options, 1, 0, samples), LINES);
    assert_memory_equal(samples, expected, sizeof samples);
    check_invariance(&options, samples, LINES);
}

/* Reads several epochs of draws. counts: of SAMPLES. */
static void count_draws(struct loader_options *options, uint64_t lines, uint32_t epochs,
                        uint64_t *counts)
{
    uint32_t *samples = calloc(lines, sizeof *samples);
    memset(counts, 0, SAMPLES * sizeof *counts);
    for (options->epoch = 0; options->epoch < epochs; options->epoch++) {
        assert_int_equal(read_samples(options, 1, 0, samples), lines);
        for (uint64_t i = 0; i < lines; i++)
            counts[samples[i]]++;
    }
    free(samples);
}

static void draws_follow_the_weights(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    char text[LISTED * 40] = "";
    uint64_t counts[SAMPLES];
    uint32_t samples[LISTED];
    double sum = 0, chi_square = 0;
    enum { EPOCHS = 400 };
    for (uint32_t i = 0; i < LISTED; i++) {
        sprintf(text + strlen(text), "k%06u\t%g\n", 2 * i, 0.25 * (i % 5));
        sum += 0.25 * (i % 5);
    }
    options.selection.weights = write_list(fixture, text);
    count_draws(&options, LISTED, EPOCHS, counts);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        double weight = i % 2 == 0 && i < 2 * LISTED ? 0.25 * (i / 2 % 5) : 0;
        double expected = LISTED * EPOCHS * weight / sum;
        if (weight == 0)
            assert_int_equal(counts[i], 0);
        else
            chi_square +=
                ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    assert_true(chi_square > 10 && chi_square < 60); /* 31 degrees of freedom */
    options.epoch = 5;
    assert_int_equal(read_samples(&options, 1, 0, samples), LISTED);
    check_invariance(&options, samples, LISTED);
    options.seed++;
    uint32_t other[LISTED];
    assert_int_equal(read_samples(&options, 1, 0, other), LISTED);
    assert_memory_not_equal(samples, other, sizeof samples);
}

/* The formula of selection.h, computed with a linear search. */
static void draws_are_those_of_the_documented_formula(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    static const double weights[] = {3, 1e-30, 0.1, 7.25, 0, 1e300};
    enum { LINES = sizeof weights / sizeof weights[0] };
    char text[LINES * 40] = "";
    uint32_t samples[LINES * 50];
    uint64_t scaled[LINES], sum = 0;
    for (int heavy = 0; heavy < 2; heavy++) { /* without and with the last line */
        int lines = LINES - 1 + heavy;
        text[0] = '\0';
        sum = 0;
        for (int i = 0; i < lines; i++) {
            sprintf(text + strlen(text), "k%06d\t%.17g\n", 3 * i, weights[i]);
            scaled[i] = (uint64_t)(weights[i] / (heavy ? 1e300 : 7.25) * 4294967296.0);
            if (weights[i] > 0 && scaled[i] == 0)
                scaled[i] = 1;
            sum += scaled[i];
        }
        options.selection.weights = write_list(fixture, text);
        options.selection.repeat = 50;
        options.epoch = 9;
        assert_int_equal(read_samples(&options, 1, 0, samples), (uint64_t)lines * 50);
        for (uint32_t at = 0; at < (uint32_t)lines * 50; at++) {
            struct philox_block block = philox_sample(options.seed, 0, 9, at, PHILOX_DRAW, 0);
            unsigned __int128 random = (uint64_t)block.word[0] << 32 | block.word[1];
            uint64_t place = (uint64_t)(random * sum >> 64), end = 0;
            int line = 0;
            while ((end += scaled[line]) <= place)
                line++;
            assert_int_equal(samples[at], 3 * line);
        }
    }
}

static void repeated_samples_have_places_and_crops_of_their_own(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = options_for(fixture);
    enum { TIMES = 3 };
    uint32_t samples[SAMPLES * TIMES], counts[SAMPLES] = {0};
    options.selection.repeat = TIMES;
    assert_int_equal(read_samples(&options, 1, 0, samples), SAMPLES * TIMES);
    bool is_mixed = false;
    for (uint32_t i = 0; i < SAMPLES * TIMES; i++) {
        counts[samples[i]]++;
        is_mixed = is_mixed || (i < SAMPLES && counts[samples[i]] > 1);
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(counts[i], TIMES);
    assert_true(is_mixed);
    check_invariance(&options, samples, SAMPLES * TIMES);

    options = fixture_loader_options(fixture, LOADER_IMAGE);
    options.epochs_max = 1;
    options.image.crop.kind = CROP_RANDOM;
    options.selection.repeat = 2;
    options.order = ORDER_SEQUENTIAL;
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t pixels = (uint64_t)options.image.width * options.image.height * 3, differing = 0;
    uint8_t *first = calloc(SAMPLES, pixels);
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        const struct batch_field *images = batch_field_named(batch, "image");
        for (uint32_t i = 0; i < batch->items_count; i++) {
            const uint8_t *image = (const uint8_t *)images->data + i * pixels;
            uint64_t position = batch->items[i].position;
            if (position < SAMPLES)
                memcpy(first + position * pixels, image, pixels);
            else
                differing += memcmp(first + (position - SAMPLES) * pixels, image, pixels) != 0;
        }
        loader_release(loader, batch);
    }
    loader_close(loader);
    free(first);
    assert_true(differing > SAMPLES * 9 / 10);
}

static void text_can_be_repeated(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, 30000, 5000, 2);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct delivery once, twice;
    options.order = ORDER_SEQUENTIAL;
    consume_all(&options, &once, NULL, NULL);
    options.selection.repeat = 2;
    consume_all(&options, &twice, NULL, NULL);
    assert_int_equal(twice.items, 2 * once.items);
    delivery_free(&once);
    delivery_free(&twice);
    fixture_remove(&fixture);
}

static void substitutes_are_selected_samples(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options make = fixture_options_default(SAMPLES);
    make.without_jpg = 4;
    fixture_make_images(&fixture, &make);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.bad_fraction_max = 1;
    options.selection.keys = write_list(&fixture, "k000002\nk000004\nk000008\n");
    options.batching = (struct batching){.global = 3, .micro = 3, .ranks = 1};
    struct delivery delivered;
    const struct loader_bad_sample *list;
    struct loader *loader;
    struct err err;
    memset(&delivered, 0, sizeof delivered);
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, &delivered, UINT64_MAX);
    assert_int_equal(delivered.items, 3);
    assert_int_equal(loader_quarantine(loader, &list), 1);
    assert_int_equal(list[0].ref.sample, 1); /* the second of the selection */
    loader_close(loader);
    assert_null(strstr(delivered.text, "k000003"));
    delivery_free(&delivered);
    unlink(list_path(&fixture));
    fixture_remove(&fixture);
}

static void wrong_selections_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *text, *what, *found;
        bool has_weights;
    } cases[] = {
        {"", "line 1 of the list of keys is missing", "", false},
        {"k000001\n\nk000002\n", "line 2 of the list of keys is empty", "", false},
        {"k000001\nk000002\nk000001\n", "line 3 of the list of keys repeats a key",
         "\"k000001\", also in line 1", false},
        {"k000001\nk00000\nk0000011\n", "has no sample with the key in line 2",
         "\"k00000\"; missing keys: 2 of 3", false},
        {"k000001\n", "line 1 of the list of keys has no weight", "", true},
        {"k000001\t\n", "line 1 of the list of keys has no weight", "", true},
        {"k000001\t1\nk000002\t1x\n", "line 2 of the list of keys has no weight", "", true},
        {"k000001\t-1\n", "line 1 of the list of keys has no weight", "", true},
        {"k000001\tinf\n", "line 1 of the list of keys has no weight", "", true},
        {"k000001\tnan\n", "line 1 of the list of keys has no weight", "", true},
        {"\t1\n", "line 1 of the list of keys has no key", "", true},
        {"k000001\t0\nk000002\t0\n", "all weights are 0", "", true},
        {"k000001\t1\nk000001\t2\n", "line 2 of the list of keys repeats a key",
         "\"k000001\", also in line 1", true},
    };
    struct loader_options options = options_for(fixture);
    struct loader *loader;
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = write_list(fixture, cases[i].text);
        options.selection.keys = cases[i].has_weights ? NULL : path;
        options.selection.weights = cases[i].has_weights ? path : NULL;
        err = (struct err){0};
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        if (!strstr(err.what, cases[i].what))
            fail_msg("case %zu: %s", i, err.what);
        assert_string_equal(err.found, cases[i].found);
        assert_string_equal(err.path, path);
    }
    options.selection.keys = options.selection.weights;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "samples are selected in ways that contradict each other");
    options.selection = (struct loader_selection){.repeat = UINT64_C(1) << 47};
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "an epoch has too many samples");
    const struct loader_source twins[2] = {{fixture->folder, 1}, {fixture->folder, 1}};
    options.selection.repeat = 2;
    options.dataset = NULL;
    options.mix = twins;
    options.mix_count = 2;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "samples of a mix cannot be selected");
    options = options_for(fixture);
    options.decode = LOADER_TOKENS;
    options.selection.keys = list_path(fixture);
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_string_equal(err.what, "windows of text cannot be selected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_select_each_listed_sample_once, set_up, remove_list),
        cmocka_unit_test_setup_teardown(all_keys_are_the_whole_dataset, set_up, remove_list),
        cmocka_unit_test_setup_teardown(an_order_is_followed_with_its_repetitions, set_up,
                                        remove_list),
        cmocka_unit_test_setup_teardown(draws_follow_the_weights, set_up, remove_list),
        cmocka_unit_test_setup_teardown(draws_are_those_of_the_documented_formula, set_up,
                                        remove_list),
        cmocka_unit_test_setup_teardown(repeated_samples_have_places_and_crops_of_their_own, set_up,
                                        remove_list),
        cmocka_unit_test(text_can_be_repeated),
        cmocka_unit_test(substitutes_are_selected_samples),
        cmocka_unit_test_setup_teardown(wrong_selections_are_refused, set_up, remove_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
