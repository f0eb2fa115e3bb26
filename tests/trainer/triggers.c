/*
 * triggers — tests when saves are due and when time is up, using tables.
 */
#include "trainer/control/triggers.h"

#include "base/clock.h"
#include "tests/support/test.h"

#define S CLOCK_NS_PER_S

static struct triggers triggers_of(struct triggers_options options)
{
    struct triggers triggers;
    triggers_init(&triggers, &options);
    return triggers;
}

static void make_step(struct triggers *triggers, uint64_t ns)
{
    triggers_begin_step(triggers, S);
    triggers_end_step(triggers, S + ns);
}

static void saves_by_steps_and_by_epochs_are_functions_of_the_step(void **state)
{
    (void)state;
    static const struct {
        uint64_t every;
        bool on_epoch_end;
        uint64_t epoch_steps, step;
        bool due;
    } rows[] = {
        {0, false, 7, 7, false}, {5, false, 7, 4, false}, {5, false, 7, 5, true},
        {5, false, 7, 7, false}, {5, true, 7, 7, true},   {5, true, 7, 10, true},
        {5, true, 7, 11, false}, {0, true, 7, 14, true},  {0, true, 0, 14, false},
        {1, false, 0, 1, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct triggers triggers =
            triggers_of((struct triggers_options){.every.steps = rows[i].every,
                                                  .on_epoch_end = rows[i].on_epoch_end,
                                                  .epoch_steps = rows[i].epoch_steps});
        assert_int_equal(triggers_save_by_step(&triggers, rows[i].step), rows[i].due);
        assert_false(triggers_save_by_clock(&triggers, 1000 * S));
    }
}

static void timed_saves_count_from_the_start_of_the_last_one(void **state)
{
    (void)state;
    struct triggers triggers =
        triggers_of((struct triggers_options){.every.ns = 10 * S, .began_ns = 100 * S});
    assert_false(triggers_save_by_clock(&triggers, 110 * S - 1));
    assert_true(triggers_save_by_clock(&triggers, 110 * S));
    triggers_note_save_begun(&triggers, 113 * S); /* for a save of any kind */
    assert_false(triggers_save_by_clock(&triggers, 122 * S));
    assert_true(triggers_save_by_clock(&triggers, 123 * S));
    assert_false(triggers_save_by_step(&triggers, 10));
}

static void a_run_stops_while_a_step_and_two_saves_fit(void **state)
{
    (void)state;
    struct triggers triggers =
        triggers_of((struct triggers_options){.max_time_ns = 100 * S, .began_ns = 1000 * S});
    make_step(&triggers, 3 * S);
    triggers_note_save(&triggers, 5 * S);
    triggers_note_save(&triggers, 2 * S); /* the longest save counts */
    uint64_t last_ns = 1100 * S - (3 + 2 * 5 + 1) * S;
    assert_false(triggers_must_stop(&triggers, last_ns - 1));
    assert_true(triggers_must_stop(&triggers, last_ns));
    assert_true(triggers_must_stop(&triggers, 1200 * S));
}

static void queued_steps_count_against_the_time_limit(void **state)
{
    (void)state;
    struct triggers triggers =
        triggers_of((struct triggers_options){.max_time_ns = 100 * S, .steps_ahead = 2});
    make_step(&triggers, 3 * S);
    triggers_note_save(&triggers, 5 * S);
    uint64_t last_ns = 100 * S - (3 * 3 + 2 * 5 + 1) * S;
    assert_false(triggers_must_stop(&triggers, last_ns - 1));
    assert_true(triggers_must_stop(&triggers, last_ns));
}

static void without_a_time_limit_no_run_stops(void **state)
{
    (void)state;
    struct triggers triggers = triggers_of((struct triggers_options){.state_bytes = 1 << 30});
    assert_false(triggers_must_stop(&triggers, UINT64_MAX / 2));
}

static void save_time_is_estimated_by_size_until_measured(void **state)
{
    (void)state;
    struct triggers triggers =
        triggers_of((struct triggers_options){.max_time_ns = 60 * S, .state_bytes = 1000000000});
    make_step(&triggers, 0);
    /* leaves time for two saves of 10 s, plus one second */
    assert_false(triggers_must_stop(&triggers, 39 * S - 1));
    assert_true(triggers_must_stop(&triggers, 39 * S));
    triggers_note_save(&triggers, S);
    assert_false(triggers_must_stop(&triggers, 57 * S - 1));
    assert_true(triggers_must_stop(&triggers, 57 * S));
}

static void a_failed_save_only_raises_the_save_time_estimate(void **state)
{
    (void)state;
    struct triggers triggers =
        triggers_of((struct triggers_options){.max_time_ns = 60 * S, .state_bytes = 1000000000});
    make_step(&triggers, 0);
    triggers_note_failed_save(&triggers, 0); /* failed at once: the assumed 10 s remain */
    assert_false(triggers_must_stop(&triggers, 39 * S - 1));
    assert_true(triggers_must_stop(&triggers, 39 * S));
    triggers_note_failed_save(&triggers, 12 * S); /* takes longer than the assumed time */
    assert_true(triggers_must_stop(&triggers, 35 * S));
    triggers_note_save(&triggers, S); /* now the time is measured */
    assert_false(triggers_must_stop(&triggers, 57 * S - 1));
    triggers_note_failed_save(&triggers, 0);
    assert_true(triggers_must_stop(&triggers, 57 * S));
}

static void measurements_survive_a_batch_change(void **state)
{
    (void)state;
    struct triggers_options options = {.every.ns = 10 * S,
                                       .on_epoch_end = true,
                                       .epoch_steps = 4,
                                       .max_time_ns = 100 * S,
                                       .state_bytes = 1000000000};
    struct triggers triggers = triggers_of(options);
    make_step(&triggers, 3 * S);
    triggers_note_save_begun(&triggers, 20 * S);
    triggers_note_save(&triggers, 15 * S);
    options.epoch_steps = 2;
    options.first_step = 7;
    triggers_change_batch(&triggers, &options);
    assert_true(triggers_save_by_step(&triggers, 9));
    assert_false(triggers_save_by_step(&triggers, 12));
    assert_false(triggers_save_by_clock(&triggers, 30 * S - 1));
    assert_true(triggers_save_by_clock(&triggers, 30 * S));
    assert_false(triggers_must_stop(&triggers, 66 * S - 1));
    assert_true(triggers_must_stop(&triggers, 66 * S));
}

static void one_step_is_made_under_any_time_limit(void **state)
{
    (void)state;
    struct triggers triggers = triggers_of((struct triggers_options){.max_time_ns = 1});
    assert_false(triggers_must_stop(&triggers, 100 * S));
    triggers_begin_step(&triggers, 100 * S);
    assert_true(triggers_must_stop(&triggers, 100 * S)); /* after the current step */
}

static void a_slow_step_is_eventually_forgotten(void **state)
{
    (void)state;
    struct triggers triggers = triggers_of((struct triggers_options){.max_time_ns = 1000 * S});
    make_step(&triggers, 300 * S);
    assert_true(triggers_must_stop(&triggers, 800 * S));
    for (int i = 0; i < 100; i++)
        make_step(&triggers, S);
    assert_false(triggers_must_stop(&triggers, 990 * S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_by_steps_and_by_epochs_are_functions_of_the_step),
        cmocka_unit_test(timed_saves_count_from_the_start_of_the_last_one),
        cmocka_unit_test(a_run_stops_while_a_step_and_two_saves_fit),
        cmocka_unit_test(queued_steps_count_against_the_time_limit),
        cmocka_unit_test(without_a_time_limit_no_run_stops),
        cmocka_unit_test(save_time_is_estimated_by_size_until_measured),
        cmocka_unit_test(a_failed_save_only_raises_the_save_time_estimate),
        cmocka_unit_test(measurements_survive_a_batch_change),
        cmocka_unit_test(one_step_is_made_under_any_time_limit),
        cmocka_unit_test(a_slow_step_is_eventually_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
