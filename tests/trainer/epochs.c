/*
 * epochs (test) — compares steps and epochs of a growing batch with counting one by one.
 */
#include "trainer/config/epochs.h"
#include "tests/support/test.h"
#include "trainer/config/config.h"

#include <errno.h>
#include <string.h>

static struct epochs parse_schedule(const char *text, uint64_t samples, uint64_t global)
{
    struct epochs epochs = {.samples = samples, .initial_batch = global};
    struct err err;
    assert_ok(epochs_parse(text, &epochs, &err), &err);
    return epochs;
}

static void steps_count_whole_batches_of_each_epoch(void **state)
{
    (void)state;
    static const char *const schedules[] = {"", "1:2", "2:3, 3:1, 4:1, 7:5", " 1:4 ,2:4,3:1"};
    const uint64_t times[][9] = {{1, 1, 1, 1, 1, 1, 1, 1, 1},
                                 {1, 2, 2, 2, 2, 2, 2, 2, 2},
                                 {1, 1, 3, 1, 1, 1, 1, 5, 5},
                                 {1, 4, 4, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < 4; i++) {
        const struct epochs epochs = parse_schedule(schedules[i], 103, 10);
        uint64_t step = 0;
        for (uint64_t epoch = 0; epoch < 9; epoch++) {
            assert_int_equal(epochs_batch_multiplier(&epochs, epoch), times[i][epoch]);
            assert_int_equal(epochs_first_step(&epochs, epoch), step);
            for (uint64_t left = 103; left >= 10 * times[i][epoch]; left -= 10 * times[i][epoch])
                assert_int_equal(epochs_epoch_at_step(&epochs, step++), epoch);
            assert_int_equal(
                epochs_first_step(&epochs, epoch) + epochs_steps_in_epoch(&epochs, epoch), step);
            uint64_t next = epoch + 1;
            while (next < 9 && times[i][next] == times[i][epoch])
                next++;
            assert_int_equal(epochs_next_change(&epochs, epoch), next < 9 ? next : UINT64_MAX);
        }
    }
}

static void far_epochs_cost_nothing(void **state)
{
    (void)state;
    const struct epochs epochs = parse_schedule("3:2", 1000, 10);
    assert_int_equal(epochs_first_step(&epochs, 1000000003), 300 + UINT64_C(50000000000));
    assert_int_equal(epochs_epoch_at_step(&epochs, 300 + UINT64_C(50000000000)), 1000000003);
    const struct epochs many = parse_schedule("", UINT64_C(1) << 47, 1);
    assert_int_equal(epochs_first_step(&many, UINT64_C(1) << 30), UINT64_MAX);
}

static void an_invalid_batch_schedule_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "0:2",       "1",
        "1:",        "1:0",
        "2:1,2:2",   "3:1,2:1",
        "1:2,",      ",",
        "1:2 3:4",   "-1:2",
        "1:-2",      "1:2;3:4",
        "1:9999999", "9999999999:1",
        "x",         "1:1,2:1,3:1,4:1,5:1,6:1,7:1,8:1,9:1,10:1,11:1,12:1,13:1,14:1,15:1,16:1,17:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct epochs epochs = {.samples = 10, .initial_batch = 1};
        struct err err;
        if (epochs_parse(wrong[i], &epochs, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", wrong[i]);
    }
}

static void a_change_at_epoch_0_is_refused_with_what_to_set(void **state)
{
    struct epochs epochs = {.samples = 10, .initial_batch = 1};
    struct err err = {0};
    (void)state;
    assert_int_equal(epochs_parse("0:2, 4:4", &epochs, &err), -EINVAL);
    assert_string_equal(err.advice, "set the batch of epoch 0 with batch.global");
    assert_int_equal(epochs_parse("1:0", &epochs, &err), -EINVAL);
    assert_string_equal(err.advice, "");
}

/* The help text for EPOCH describes what the parser accepts. */
static void batch_schedules_start_at_epoch_0(void **state)
{
    size_t count;
    const struct config_field *fields = config_fields(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].key, "batch.schedule") == 0) {
            assert_non_null(strstr(fields[i].help, "EPOCH is at least 1"));
            return;
        }
    fail_msg("there is no batch.schedule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_count_whole_batches_of_each_epoch),
        cmocka_unit_test(far_epochs_cost_nothing),
        cmocka_unit_test(an_invalid_batch_schedule_is_refused),
        cmocka_unit_test(a_change_at_epoch_0_is_refused_with_what_to_set),
        cmocka_unit_test(batch_schedules_start_at_epoch_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
