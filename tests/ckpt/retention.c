/*
 * retention — tests which steps are kept, with tables, and against an independent implementation on
 * random folders.
 */
#include "ckpt/tools/retention.h"

#include "base/json/jsonx.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 24 };

/* Lists the kept steps, such as "500 1000"; text has room for 512 bytes. A NaN metric is
 * unknown. */
static const char *list_kept(const struct ckpt_keep_rules *keep, const uint64_t *numbers,
                             const double *metrics, size_t count, uint64_t saved_step, char *text)
{
    struct retention_step steps[STEPS_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool has_metric = metrics && !isnan(metrics[i]);
        steps[i] = (struct retention_step){.step = numbers[i],
                                           .is_saved = numbers[i] == saved_step,
                                           .has_metric = has_metric,
                                           .metric = has_metric ? metrics[i] : 0};
    }
    retention_decide(keep, steps, count);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (steps[i].reasons)
            used += (size_t)snprintf(text + used, 512 - used, "%s%llu", used ? " " : "",
                                     (unsigned long long)steps[i].step);
    return text;
}

static void combined_rules_keep_the_union_of_their_steps(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 100, 200, 300, 400, 500, 600};
    static const double losses[] = {9, NAN, 1, 4, 2, 3, NAN};
#define BEST(number, how) .best = {.metric = "val_loss", .mode = (how), .count = (number) }
    static const struct {
        struct ckpt_keep_rules keep;
        uint64_t saved_step;
        const char *kept_steps;
    } rows[] = {
        {{.last = 0}, 1, "0 100 200 300 400 500 600"},
        {{.last = 0, .every = 300}, 1, "0 100 200 300 400 500 600"},
        {{.last = 1}, 1, "600"},
        {{.last = 3}, 1, "400 500 600"},
        {{.last = 99}, 1, "0 100 200 300 400 500 600"},
        {{.last = 1}, 200, "200 600"},
        {{.last = 1, .every = 300}, 1, "0 300 600"},
        {{.last = 1, .every = 1}, 1, "0 100 200 300 400 500 600"},
        {{.last = 1, BEST(1, CKPT_MODE_MIN)}, 1, "200 600"},
        {{.last = 1, BEST(2, CKPT_MODE_MIN)}, 1, "200 400 600"},
        {{.last = 1, BEST(1, CKPT_MODE_MAX)}, 1, "0 600"},
        {{.last = 1, BEST(9, CKPT_MODE_MAX)}, 1, "0 200 300 400 500 600"},
        {{.last = 1, BEST(0, CKPT_MODE_MIN)}, 1, "600"},
        {{.last = 1, .best = {.mode = CKPT_MODE_MIN, .count = 2}}, 1, "600"},
        {{.last = 2, .every = 300, BEST(2, CKPT_MODE_MIN)}, 100, "0 100 200 300 400 500 600"},
        {{.last = 2, .every = 250, BEST(1, CKPT_MODE_MIN)}, 1, "0 200 500 600"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        assert_string_equal(list_kept(&rows[i].keep, numbers, losses, 7, rows[i].saved_step, text),
                            rows[i].kept_steps);
    }
}

static void ties_keep_the_earlier_steps(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {1, 2, 3, 4, 5};
    static const double accuracies[] = {0.5, 1, 1, 1, 0.1};
    char text[512];
    struct ckpt_keep_rules keep = {.last = 1, BEST(2, CKPT_MODE_MAX)};
    assert_string_equal(list_kept(&keep, numbers, accuracies, 5, 0, text), "2 3 5");
}

static void infinite_losses_rank_last_but_above_unknown_ones(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {1, 2, 3, 4};
    static const double losses[] = {INFINITY, 3, NAN, NAN};
    char text[512];
    struct ckpt_keep_rules keep = {.last = 1, BEST(1, CKPT_MODE_MIN)};
    assert_string_equal(list_kept(&keep, numbers, losses, 4, 0, text), "2 4");
    keep.best.count = 2;
    assert_string_equal(list_kept(&keep, numbers, losses, 4, 0, text), "1 2 4");
}

static void an_empty_folder_is_no_error(void **state)
{
    (void)state;
    retention_decide(&(struct ckpt_keep_rules){.last = 1, .every = 3, BEST(1, CKPT_MODE_MIN)}, NULL,
                     0);
}

struct scored_step {
    uint64_t step;
    double score; /* smaller is better */
};

static int compare_scored(const void *a, const void *b)
{
    const struct scored_step *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->step < y->step ? -1 : 1;
}

static bool oracle_keeps(const struct ckpt_keep_rules *keep, const uint64_t *numbers,
                         const double *metrics, size_t count, uint64_t saved_step, uint64_t step)
{
    struct scored_step known[STEPS_MAX];
    size_t known_count = 0,
           first_of_last = keep->last == 0 || keep->last > count ? 0 : count - keep->last;
    for (size_t i = first_of_last; i < count; i++)
        if (numbers[i] == step)
            return true;
    if (step == saved_step || (keep->every && step / keep->every * keep->every == step))
        return true;
    for (size_t i = 0; i < count; i++)
        if (!isnan(metrics[i]))
            known[known_count++] = (struct scored_step){
                numbers[i], keep->best.mode == CKPT_MODE_MAX ? -metrics[i] : metrics[i]};
    qsort(known, known_count, sizeof known[0], compare_scored);
    for (size_t i = 0; i < known_count && i < keep->best.count && keep->best.metric; i++)
        if (known[i].step == step)
            return true;
    return false;
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static struct ckpt_keep_rules draw_keep(uint64_t *seed)
{
    return (struct ckpt_keep_rules){.last = draw(seed, 5),
                                    .every = draw(seed, 6),
                                    .best = {.metric = draw(seed, 4) ? "val_loss" : NULL,
                                             .mode = draw(seed, 2) ? CKPT_MODE_MAX : CKPT_MODE_MIN,
                                             .count = draw(seed, 4)}};
}

static size_t draw_steps(uint64_t *seed, uint64_t *numbers, double *metrics)
{
    size_t count = draw(seed, STEPS_MAX + 1);
    uint64_t number = draw(seed, 3);
    for (size_t i = 0; i < count; i++, number += 1 + draw(seed, 4)) {
        numbers[i] = number;
        metrics[i] = draw(seed, 5) ? (double)draw(seed, 6) : NAN;
    }
    return count;
}

static void random_folders_match_a_naive_implementation(void **state)
{
    (void)state;
    uint64_t numbers[STEPS_MAX], seed = 20;
    double metrics[STEPS_MAX];
    for (int round = 0; round < 20000; round++) {
        struct ckpt_keep_rules keep = draw_keep(&seed);
        size_t count = draw_steps(&seed, numbers, metrics), used = 0;
        uint64_t saved_step = draw(&seed, 40);
        char found[512], expected[512] = "";
        for (size_t i = 0; i < count; i++)
            if (oracle_keeps(&keep, numbers, metrics, count, saved_step, numbers[i]))
                used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%llu",
                                         used ? " " : "", (unsigned long long)numbers[i]);
        assert_string_equal(list_kept(&keep, numbers, metrics, count, saved_step, found), expected);
    }
}

/* The rules keep the same steps whether they are applied after each save or once at the end. */
static void pruning_after_each_save_equals_pruning_once_at_the_end(void **state)
{
    (void)state;
    uint64_t all[STEPS_MAX], here[STEPS_MAX], seed = 21;
    double metrics[STEPS_MAX], here_metrics[STEPS_MAX];
    for (int round = 0; round < 5000; round++) {
        struct ckpt_keep_rules keep = draw_keep(&seed);
        size_t count = draw_steps(&seed, all, metrics), here_count = 0;
        char at_end[512], streamed[512] = "";
        for (size_t saved = 0; saved < count; saved++) {
            struct retention_step steps[STEPS_MAX];
            here[here_count] = all[saved];
            here_metrics[here_count++] = metrics[saved];
            for (size_t i = 0; i < here_count; i++)
                steps[i] = (struct retention_step){.step = here[i],
                                                   .is_saved = here[i] == all[saved],
                                                   .has_metric = !isnan(here_metrics[i]),
                                                   .metric = here_metrics[i]};
            retention_decide(&keep, steps, here_count);
            size_t left = 0;
            for (size_t i = 0; i < here_count; i++) {
                here[left] = here[i];
                here_metrics[left] = here_metrics[i];
                left += steps[i].reasons != 0;
            }
            here_count = left;
        }
        for (size_t i = 0, used = 0; i < here_count; i++)
            used += (size_t)snprintf(streamed + used, sizeof streamed - used, "%s%llu",
                                     used ? " " : "", (unsigned long long)here[i]);
        assert_string_equal(streamed, list_kept(&keep, all, metrics, count, UINT64_MAX, at_end));
    }
}

static void a_metric_belongs_to_the_step_it_was_measured_at(void **state)
{
    (void)state;
    static const struct {
        const char *state, *name;
        uint64_t step;
        double metric; /* NaN: unknown */
    } rows[] = {
        {"{\"metrics\":{\"val_step\":500,\"val_loss\":1.5}}", "val_loss", 500, 1.5},
        {"{\"metrics\":{\"val_step\":500,\"val_loss\":1.5}}", "val_loss", 600, NAN},
        {"{\"metrics\":{\"val_loss\":2}}", "val_loss", 600, 2},
        {"{\"metrics\":{\"step\":1,\"loss\":2,\"loss_step\":5}}", "loss", 5, 2},
        {"{\"metrics\":{\"loss_step\":4,\"loss\":2}}", "loss", 5, NAN},
        {"{\"metrics\":{\"val_loss\":null}}", "val_loss", 600, NAN},
        {"{\"metrics\":{\"val_loss\":\"1\"}}", "val_loss", 600, NAN},
        {"{\"metrics\":{}}", "val_loss", 600, NAN},
        {"{\"metrics\":3}", "val_loss", 600, NAN},
        {"{}", "val_loss", 600, NAN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json_t *root;
        struct err err = {0};
        double metric = NAN;
        assert_ok(jsonx_parse(rows[i].state, strlen(rows[i].state), "state", 0, &root, &err), &err);
        bool known = ckpt_get_metric(root, rows[i].name, rows[i].step, &metric);
        assert_int_equal(known, !isnan(rows[i].metric));
        if (known)
            assert_true(metric == rows[i].metric);
        jsonx_free(root);
    }
}

static void metric_names_imply_the_better_direction(void **state)
{
    (void)state;
    static const char *const small[] = {"val_loss", "loss"},
                             *const large[] = {"val_accuracy", "accuracy"},
                             *const unknown[] = {"",          "val_los",    "gloss",
                                                 "val_lossy", "inaccuracy", "val_bleu"};
    enum ckpt_metric_mode mode;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        assert_true(ckpt_guess_metric_mode(small[i], &mode) && mode == CKPT_MODE_MIN);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        assert_true(ckpt_guess_metric_mode(large[i], &mode) && mode == CKPT_MODE_MAX);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_false(ckpt_guess_metric_mode(unknown[i], &mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combined_rules_keep_the_union_of_their_steps),
        cmocka_unit_test(ties_keep_the_earlier_steps),
        cmocka_unit_test(infinite_losses_rank_last_but_above_unknown_ones),
        cmocka_unit_test(an_empty_folder_is_no_error),
        cmocka_unit_test(random_folders_match_a_naive_implementation),
        cmocka_unit_test(pruning_after_each_save_equals_pruning_once_at_the_end),
        cmocka_unit_test(a_metric_belongs_to_the_step_it_was_measured_at),
        cmocka_unit_test(metric_names_imply_the_better_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
