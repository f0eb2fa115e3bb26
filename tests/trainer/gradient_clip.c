/*
 * gradient_clip (test) — clipping, overflows, and which update comes next.
 */
#include "trainer/ops/gradient_clip.h"
#include "tests/support/test.h"

enum { VALID = 8 };

static void clip_sums(struct gradient_clip *clip, double losses, double squares,
                      const struct gradient_clip_input *input)
{
    struct exact_sum loss_words = {{0}}, square_words = {{0}};
    exact_sum_add(&loss_words, losses);
    exact_sum_add(&square_words, squares);
    gradient_clip_compute(clip, loss_words.limb, square_words.limb, input);
}

static struct gradient_clip_input input_with(double clip_norm, uint64_t first_update)
{
    struct gradient_clip_input input = {
        .valid_count = VALID, .clip_norm = clip_norm, .first_update = first_update};
    for (int i = 0; i <= UNREAD_STEPS_MAX; i++)
        input.scheduled[i] =
            (struct scheduled_scalars){(double)first_update + i, 100 + (double)i, 200 + (double)i};
    return input;
}

static void gradients_are_clipped_to_the_norm_and_never_enlarged(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(false, 1);
    struct gradient_clip clip = gradient_clip_begin(&scaler, 0);
    struct gradient_clip_input input = input_with(1, 0);
    clip_sums(&clip, 1, 64.0 * 100, &input); /* the mean's norm is 10 */
    assert_true(fabs(clip.norm - 10) < 1e-12);
    assert_true(fabs(clip.scalars.gradient_scale - 1.0 / 8 * (1 / (10 + 1e-6))) < 1e-15);
    clip_sums(&clip, 1, 64.0 * 0.01, &input); /* 0.1 is below the limit */
    assert_true(clip.scalars.gradient_scale == 1.0 / 8);
    input.clip_norm = 0;
    clip_sums(&clip, 1, 64.0 * 100, &input);
    assert_true(clip.scalars.gradient_scale == 1.0 / 8);
    assert_true(isinf(clip.scalars.gradient_limit));
    clip = gradient_clip_begin(&scaler, 0);
    /* limits elements of the mean, so it does not depend on the number of items */
    input.clip_value = 0.5;
    clip_sums(&clip, 1, 64.0 * 100, &input);
    assert_true(clip.scalars.gradient_limit == 0.5 && clip.scalars.gradient_scale == 1.0 / 8);
}

static void scheduled_scalars_belong_to_the_next_update(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(true, VALID);
    struct gradient_clip clip = gradient_clip_begin(&scaler, 7);
    const struct gradient_clip_input input = input_with(0, 7);
    clip_sums(&clip, 1, 1, &input);
    assert_true(clip.scalars.lr == 7 && clip.scalars.correction1 == 100 &&
                clip.scalars.correction2 == 200);
    clip_sums(&clip, 1, INFINITY, &input); /* skipped */
    assert_true(clip.scalars.is_skipped && clip.scalars.lr == 8);
    clip_sums(&clip, 1, 1, &input);
    assert_true(!clip.scalars.is_skipped && clip.scalars.lr == 8 &&
                clip.scalars.correction1 == 101);
    assert_int_equal(clip.updates_count, 9);
}

static void a_tolerated_overflow_skips_only_its_step(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(true, VALID);
    struct gradient_clip clip = gradient_clip_begin(&scaler, 0);
    const struct gradient_clip_input input = input_with(0, 0);
    assert_true(clip.loss_factor == (double)SCALER_INITIAL / VALID);
    clip_sums(&clip, NAN, 1, &input);
    assert_true(clip.scalars.is_skipped && !clip.is_finite && !clip.has_failed &&
                clip.updates_count == 0);
    assert_true(clip.scaler.scale == SCALER_INITIAL / 2 &&
                clip.loss_factor == (double)SCALER_INITIAL / 2 / VALID);
    clip_sums(&clip, 1, 4 * clip.loss_factor * clip.loss_factor * VALID * VALID, &input);
    assert_true(!clip.scalars.is_skipped && clip.is_finite && clip.updates_count == 1);
    assert_true(clip.norm == 2 && clip.scalars.gradient_scale == 1 / (clip.loss_factor * VALID));
}

static void after_a_failure_nothing_is_updated(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(false, VALID);
    struct gradient_clip clip = gradient_clip_begin(&scaler, 3);
    const struct gradient_clip_input input = input_with(0, 3);
    clip_sums(&clip, INFINITY, 1, &input);
    assert_true(clip.scalars.is_skipped && clip.has_failed);
    clip_sums(&clip, 1, 1, &input);
    assert_true(clip.is_finite && clip.scalars.is_skipped && clip.has_failed);
    assert_int_equal(clip.updates_count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_clipped_to_the_norm_and_never_enlarged),
        cmocka_unit_test(scheduled_scalars_belong_to_the_next_update),
        cmocka_unit_test(a_tolerated_overflow_skips_only_its_step),
        cmocka_unit_test(after_a_failure_nothing_is_updated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
