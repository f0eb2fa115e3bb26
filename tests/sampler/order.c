/*
 * order — tests that the order is a permutation for any parameters, equals the Python oracle's, and
 * is cheap and well mixed.
 */
#include "sampler/order.h"

#include "base/cipher.h"
#include "sampler/sampler.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct order_params make_params(uint64_t samples, uint64_t lanes, uint64_t window,
                                       uint64_t run)
{
    struct order_params params = {
        .samples = samples, .seed = 7, .lanes = lanes, .window = window, .run = run};
    order_params_resolve(&params, 30000, 64);
    return params;
}

/* Calls `check` for a grid of parameters with all corner cases: one lane, one lane per sample, runs
 * that do not divide evenly. */
static void for_many_params(void (*check)(void *context, const struct order_params *params,
                                          uint32_t epoch),
                            void *context)
{
    static const uint64_t samples[] = {1, 2, 3, 5, 63, 64, 65, 127, 255, 256, 257, 1000, 3068};
    static const uint64_t lanes[] = {1, 2, 7, 64, 0}, windows[] = {1, 3, 16, 1000000, 0},
                          runs[] = {1, 2, 5, 64, 0};
    for (size_t n = 0; n < sizeof samples / sizeof samples[0]; n++) {
        for (size_t l = 0; l < 5; l++) {
            for (size_t w = 0; w < 5; w++) {
                for (size_t c = 0; c < 5; c++) {
                    struct order_params params =
                        make_params(samples[n], lanes[l], windows[w], runs[c]);
                    check(context, &params, (uint32_t)(l + w));
                }
            }
        }
    }
}

static void check_permutation(void *context, const struct order_params *params, uint32_t epoch)
{
    (void)context;
    static uint8_t seen[4096];
    memset(seen, 0, sizeof seen);
    struct order order;
    order_init(&order, params, epoch);
    struct order_cache *cache = order_cache_open(params);
    assert_non_null(cache);
    for (uint64_t p = 0; p < params->samples; p++) {
        uint64_t sample = order_sample(&order, cache, p);
        assert_true(sample < params->samples);
        assert_false(seen[sample]);
        seen[sample] = 1;
        assert_int_equal(order_sample(&order, NULL, p), sample);
        assert_int_equal(order_position(&order, sample), p);
    }
    order_cache_close(cache);
}

static void each_sample_occurs_once_and_positions_are_invertible(void **state)
{
    (void)state;
    for_many_params(check_permutation, NULL);
}

struct oracle {
    FILE *questions;
    uint64_t (*answers)[3];
    size_t count;
    uint64_t samples; /* of the last question */
};

enum { ORACLE_LINES_MAX = 13 * 125 + 8 };

static void add_oracle_questions(void *context, const struct order_params *params, uint32_t epoch)
{
    struct oracle *oracle = context;
    uint64_t once = 0, placed = 0, plain = 0;
    struct sampler *sampler;
    struct err err;
    assert_ok(sampler_open(params, &sampler, &err), &err);
    for (uint64_t p = 0; p < params->samples; p++) {
        struct sample_ref ref = sampler_at(sampler, epoch, p);
        once += digest_set_term(ref);
        placed += digest_sequence_term(epoch, p, ref);
        plain += p * (ref.sample + 1);
    }
    sampler_close(sampler);
    fprintf(oracle->questions,
            "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %s\n", params->samples,
            params->lanes, params->window, params->run, epoch, params->seed,
            order_kind_name(params->kind));
    assert_true(oracle->count < ORACLE_LINES_MAX);
    oracle->samples = params->samples;
    uint64_t *answer = oracle->answers[oracle->count++];
    answer[0] = once;
    answer[1] = placed;
    answer[2] = plain;
}

/* Uses a thinner grid, since Python is slow, and with sanitizers one for each size: the other tests
 * run the same code. */
static void add_some_oracle_questions(void *context, const struct order_params *params,
                                      uint32_t epoch)
{
    const struct oracle *oracle = context;
    bool is_small = params->samples <= 257;
    if (test_is_sanitized() && params->samples == oracle->samples)
        return;
    if (is_small ? (params->lanes + params->window + params->run) % 3 == 0
                 : params->lanes == 7 && params->run != 2)
        add_oracle_questions(context, params, epoch);
}

static void oracle_written_from_the_docs_gives_the_same_order(void **state)
{
    (void)state;
    const char *python = test_need_python("struct");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/questions", folder);
    struct oracle oracle = {.questions = fopen(path, "w"),
                            .answers = calloc(ORACLE_LINES_MAX, sizeof(uint64_t[3]))};
    assert_non_null(oracle.questions);
    assert_non_null(oracle.answers);
    for_many_params(add_some_oracle_questions, &oracle);
    for (enum order_kind kind = ORDER_FULL; kind <= ORDER_SEQUENTIAL; kind++) {
        struct order_params params = {.kind = kind, .samples = 1000, .seed = UINT64_MAX - 5};
        order_params_resolve(&params, 1, 64);
        add_oracle_questions(&oracle, &params, UINT32_MAX);
    }
    fclose(oracle.questions);
    char *text = malloc(ORACLE_LINES_MAX * 64);
    assert_non_null(text);
    assert_int_equal(test_run_output(text, ORACLE_LINES_MAX * 64,
                                     "'%s' '" TEST_SOURCE_DIR "/tests/oracle/order.py' <'%s'",
                                     python, path),
                     0);
    assert_true(oracle.count > (test_is_sanitized() ? 12 : 200));
    char *line = text;
    for (size_t i = 0; i < oracle.count; i++) {
        char expected[64];
        int bytes =
            snprintf(expected, sizeof expected, "%016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n",
                     oracle.answers[i][0], oracle.answers[i][1], oracle.answers[i][2]);
        if (strncmp(line, expected, (size_t)bytes) != 0)
            fail_msg("line %zu of the oracle is %.50s, expected %s", i + 1, line, expected);
        line += bytes;
    }
    assert_int_equal(*line, '\0');
    free(text);
    free(oracle.answers);
    test_remove_folder(folder);
}

static void epochs_seeds_and_lanes_change_the_order(void **state)
{
    (void)state;
    struct order_params params = make_params(1000, 8, 32, 4), other = params;
    other.seed++;
    struct order a, b, c;
    order_init(&a, &params, 0);
    order_init(&b, &params, 1);
    order_init(&c, &other, 0);
    int same_epoch = 0, same_seed = 0;
    for (uint64_t p = 0; p < 1000; p++) {
        same_epoch += order_sample(&a, NULL, p) == order_sample(&b, NULL, p);
        same_seed += order_sample(&a, NULL, p) == order_sample(&c, NULL, p);
    }
    assert_true(same_epoch < 20);
    assert_true(same_seed < 20);
}

/* A sampler caches windows; earlier queries must not change results. */
static void results_do_not_depend_on_earlier_calls(void **state)
{
    (void)state;
    struct order_params params = make_params(1000, 8, 32, 4);
    struct order orders[3];
    struct sampler *sampler;
    struct err err;
    assert_ok(sampler_open(&params, &sampler, &err), &err);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        order_init(&orders[epoch], &params, epoch);
    for (uint64_t p = 0; p < params.samples; p++)
        for (uint32_t epoch = 0; epoch < 3; epoch++)
            assert_int_equal(sampler_at(sampler, epoch, p).sample,
                             order_sample(&orders[epoch], NULL, p));
    sampler_close(sampler);
}

/* The positions from q * L on are the last samples of lanes 0..r-1. */
static void the_last_positions_belong_to_the_first_lanes(void **state)
{
    (void)state;
    /* one lane: positions are the places that several lanes divide */
    struct order_params params = make_params(67, 5, 1, 7), one_lane = make_params(67, 1, 1, 7);
    struct order order, places;
    order_init(&order, &params, 3);
    order_init(&places, &one_lane, 3);
    /* q = 13, r = 2: lanes begin at 0, 14, 28, 41, 54 */
    static const uint64_t pairs[][2] = {{65, 13}, {66, 27}, {64, 66}, {2, 28}};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(order_sample(&order, NULL, pairs[i][0]),
                         order_sample(&places, NULL, pairs[i][1]));
}

static struct order_params resolve(struct order_params params, uint64_t mean_sample_bytes,
                                   uint64_t batch)
{
    order_params_resolve(&params, mean_sample_bytes, batch);
    return params;
}

static void defaults_are_as_documented(void **state)
{
    (void)state;
    struct order_params params =
        resolve((struct order_params){.samples = 1280000, .seed = 1}, 16384, 1024);
    assert_int_equal(params.lanes, 1024); /* of 1250 samples */
    assert_int_equal(params.window, 1);
    assert_int_equal(params.run, 63); /* 64 is not coprime to 1250 */
    params = resolve((struct order_params){.samples = 3068}, 30000, 64);
    assert_int_equal(params.lanes, 64);
    assert_int_equal(params.run, 11); /* a quarter of the 47 samples of a lane */
    params = resolve((struct order_params){.samples = 10}, 0, 256);
    assert_int_equal(params.lanes, 10);
    assert_int_equal(params.window, 1);
    assert_int_equal(params.run, 1);
    params = resolve(
        (struct order_params){.samples = 1000, .lanes = 8, .window = 2000, .run = 5000}, 1, 16);
    assert_int_equal(params.lanes, 8);
    assert_int_equal(params.window, 1000);
    assert_int_equal(params.run, 1000);
    params = resolve(
        (struct order_params){.samples = 10, .kind = ORDER_FULL, .lanes = 4, .window = 2, .run = 3},
        5 << 20, 256);
    assert_int_equal(params.lanes, 1);
    assert_int_equal(params.window, 10);
    assert_int_equal(params.run, 1);
}

/* A lane goes through its runs one after another, and each quarter of a run before the next. No
 * order of neighbors is the same in two epochs. */
static void lanes_read_runs_quarter_by_quarter(void **state)
{
    enum { SAMPLES = 64 * 1250, LANES = 64, RUN = 37 };
    (void)state;
    struct order_params params = make_params(SAMPLES, LANES, 1, RUN);
    uint32_t repeated = 0, pairs = 0;
    struct order order, other;
    order_init(&order, &params, 4);
    order_init(&other, &params, 5);
    for (uint64_t lane = 0; lane < LANES; lane++) {
        uint64_t run = UINT64_MAX, runs = 0, quarter = 0, quarters = 0;
        for (uint64_t offset = 0; offset < SAMPLES / LANES; offset++) {
            uint64_t sample = order_sample(&order, NULL, offset * LANES + lane);
            uint64_t begin = sample / RUN * RUN, samples = RUN;
            if (begin + samples > SAMPLES)
                samples = SAMPLES - begin;
            uint64_t own_quarter = 0;
            while (sample - begin >= (own_quarter + 1) * samples / 4)
                own_quarter++;
            runs += sample / RUN != run;
            quarters += sample / RUN != run || own_quarter != quarter;
            run = sample / RUN;
            quarter = own_quarter;
            if (offset == 0)
                continue;
            uint64_t before = order_sample(&order, NULL, (offset - 1) * LANES + lane);
            uint64_t place = order_position(&other, before) + LANES;
            repeated += place < SAMPLES && order_sample(&other, NULL, place) == sample;
            pairs++;
        }
        /* a lane begins and ends anywhere in a run */
        assert_in_range(runs, 1250 / RUN, 1250 / RUN + 3);
        assert_in_range(quarters, 4 * (runs - 2), 4 * runs);
    }
    /* as often as by chance: the order of the 9 samples of a quarter is random */
    assert_in_range(repeated, pairs / 20, pairs / 5);
}

/* The quarter of its run that has the sample, counted over all runs. */
static uint64_t quarter_of(const struct order_params *params, uint64_t sample)
{
    uint64_t run = sample / params->run, in_run = sample % params->run;
    uint64_t samples = params->samples - run * params->run < params->run
                           ? params->samples - run * params->run
                           : params->run;
    uint64_t quarter = 0;
    while (in_run >= samples / 4 * (quarter + 1) + samples % 4 * (quarter + 1) / 4)
        quarter++;
    return 4 * run + quarter;
}

/* Compares the neighbors with the samples at the lane's next positions. */
static void check_neighbors(void *context, const struct order_params *params, uint32_t epoch)
{
    (void)context;
    struct order order;
    order_init(&order, params, epoch);
    struct order_cache *cache = order_cache_open(params);
    assert_non_null(cache);
    for (uint64_t p = 0; p < params->samples; p++) {
        uint64_t first = order_sample(&order, cache, p), quarter = 0, run = 0;
        if (params->window == 1 && params->run > 1) {
            uint64_t next = p + params->lanes;
            for (; next < params->samples; next += params->lanes) {
                uint64_t sample = order_sample(&order, cache, next);
                if (sample / params->run != first / params->run)
                    break;
                run++;
                quarter +=
                    quarter == run - 1 && quarter_of(params, sample) == quarter_of(params, first);
            }
        }
        uint64_t half = order_neighbors_ahead(&order, cache, p, 2);
        assert_int_equal(order_neighbors_ahead(&order, NULL, p, 1), quarter);
        assert_int_equal(order_neighbors_ahead(&order, cache, p, 4), run);
        assert_in_range(half, quarter, run);
        uint64_t quarters = 1;
        for (uint64_t k = 1; k <= half; k++)
            quarters +=
                quarter_of(params, order_sample(&order, cache, p + k * params->lanes)) !=
                quarter_of(params, order_sample(&order, cache, p + (k - 1) * params->lanes));
        assert_in_range(quarters, 1, 2);
    }
    order_cache_close(cache);
}

static void neighbors_ahead_are_those_of_the_same_part_of_the_run(void **state)
{
    (void)state;
    for_many_params(check_neighbors, NULL);
}

static void a_small_dataset_is_shuffled_too(void **state)
{
    (void)state;
    struct order_params params = resolve((struct order_params){.samples = 210}, 1000, 256);
    int same = 0, in_place = 0;
    struct order first, second;
    order_init(&first, &params, 0);
    order_init(&second, &params, 1);
    for (uint64_t p = 0; p < params.samples; p++) {
        same += order_sample(&first, NULL, p) == order_sample(&second, NULL, p);
        in_place += order_sample(&first, NULL, p) == p;
    }
    assert_true(same < 20 && in_place < 20);
}

/* ---- The cost of a query: calls of the cipher, intercepted by the linker (--wrap). ---- */

static unsigned cipher_calls;

extern void __real_cipher_init(struct cipher *cipher, uint64_t count, const uint64_t key[4]);
extern uint64_t __real_cipher_encrypt(const struct cipher *cipher, uint64_t index);
extern uint64_t __real_cipher_decrypt(const struct cipher *cipher, uint64_t image);
void __wrap_cipher_init(struct cipher *cipher, uint64_t count, const uint64_t key[4]);
uint64_t __wrap_cipher_encrypt(const struct cipher *cipher, uint64_t index);
uint64_t __wrap_cipher_decrypt(const struct cipher *cipher, uint64_t image);

void __wrap_cipher_init(struct cipher *cipher, uint64_t count, const uint64_t key[4])
{
    cipher_calls++;
    __real_cipher_init(cipher, count, key);
}

uint64_t __wrap_cipher_encrypt(const struct cipher *cipher, uint64_t index)
{
    cipher_calls++;
    return __real_cipher_encrypt(cipher, index);
}

uint64_t __wrap_cipher_decrypt(const struct cipher *cipher, uint64_t image)
{
    cipher_calls++;
    return __real_cipher_decrypt(cipher, image);
}

/* Beginning an epoch takes a few calls, and looking up a position, or its inverse, at most eleven:
 * for the window, the run, its quarters and one of them. */
static void a_position_costs_the_same_in_a_huge_epoch(void **state)
{
    (void)state;
    struct order_params params = make_params((UINT64_C(1) << 48) - 3, 64, 1000, 64);
    struct order order;
    cipher_calls = 0;
    order_init(&order, &params, 2);
    assert_in_range(cipher_calls, 1, 3);
    uint64_t position = 12345;
    for (int i = 0; i < 20000; i++) {
        position = (position * 0x9E3779B97F4A7C15u + 1) % params.samples;
        cipher_calls = 0;
        uint64_t sample = order_sample(&order, NULL, position);
        assert_in_range(cipher_calls, 1, 11);
        assert_true(sample < params.samples);
        cipher_calls = 0;
        assert_int_equal(order_position(&order, sample), position);
        assert_in_range(cipher_calls, 1, 11);
    }
}

/* Mean number of distinct classes in batches of 1024, for 1000 consecutive classes. */
static double distinct_classes(enum order_kind kind)
{
    enum { SAMPLES = 1280000, CLASSES = 1000, BATCH = 1024 };
    struct order_params params =
        resolve((struct order_params){.kind = kind, .samples = SAMPLES, .seed = 5}, 30000, BATCH);
    struct order order;
    order_init(&order, &params, 0);
    struct order_cache *cache = order_cache_open(&params);
    assert_non_null(cache);
    uint64_t total = 0, batches = 0;
    for (uint64_t first = 0; first + BATCH <= SAMPLES; first += BATCH * 10) {
        uint8_t seen[CLASSES] = {0};
        for (uint64_t p = first; p < first + BATCH; p++) {
            uint8_t *mark = &seen[order_sample(&order, cache, p) / (SAMPLES / CLASSES)];
            total += !*mark;
            *mark = 1;
        }
        batches++;
    }
    order_cache_close(cache);
    return (double)total / (double)batches;
}

static void batches_are_nearly_as_mixed_as_a_full_shuffle(void **state)
{
    (void)state;
    double shuffle = distinct_classes(ORDER_SHUFFLE), full = distinct_classes(ORDER_FULL);
    printf("distinct classes a batch of 1024: shuffle %.1f, full %.1f\n", shuffle, full);
    assert_true(full > 630 && full < 652);
    assert_true(shuffle > 630 && shuffle < 665);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_occurs_once_and_positions_are_invertible),
        cmocka_unit_test(oracle_written_from_the_docs_gives_the_same_order),
        cmocka_unit_test(epochs_seeds_and_lanes_change_the_order),
        cmocka_unit_test(results_do_not_depend_on_earlier_calls),
        cmocka_unit_test(the_last_positions_belong_to_the_first_lanes),
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(lanes_read_runs_quarter_by_quarter),
        cmocka_unit_test(neighbors_ahead_are_those_of_the_same_part_of_the_run),
        cmocka_unit_test(a_small_dataset_is_shuffled_too),
        cmocka_unit_test(a_position_costs_the_same_in_a_huge_epoch),
        cmocka_unit_test(batches_are_nearly_as_mixed_as_a_full_shuffle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
