/*
 * update_gate (test) — clipping, overflows, and which update comes next.
 */
#include "trainer/ops/update_gate.h"
#include "tests/support/test.h"

enum { VALID = 8 };

/* Runs the gate on sums of these values. */
static void gate_update(struct update_gate *gate, double losses, double squares,
                        const struct update_gate_request *request)
{
    struct exact_sum loss_words = {{0}}, square_words = {{0}};
    exact_sum_add(&loss_words, losses);
    exact_sum_add(&square_words, squares);
    update_gate_apply(gate, loss_words.limb, square_words.limb, request);
}

static struct update_gate_request request_of(double clip_norm, uint64_t first_update)
{
    struct update_gate_request request = {
        .valid_count = VALID, .clip_norm = clip_norm, .first_update = first_update};
    for (int i = 0; i <= UPDATE_GATE_AHEAD_MAX; i++)
        request.factors[i] = (struct update_gate_factors){(double)first_update + i, 100 + (double)i,
                                                          200 + (double)i};
    return request;
}

static void gradients_are_clipped_to_the_norm_and_never_enlarged(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(false, 1);
    struct update_gate d = update_gate_begin(&scaler, 0);
    struct update_gate_request request = request_of(1, 0);
    gate_update(&d, 1, 64.0 * 100, &request); /* the mean's norm is 10 */
    assert_true(fabs(d.norm - 10) < 1e-12);
    assert_true(fabs(d.scalars.gradient_scale - 1.0 / 8 * (1 / (10 + 1e-6))) < 1e-15);
    gate_update(&d, 1, 64.0 * 0.01, &request); /* 0.1 is below the limit */
    assert_true(d.scalars.gradient_scale == 1.0 / 8);
    request.clip_norm = 0;
    gate_update(&d, 1, 64.0 * 100, &request);
    assert_true(d.scalars.gradient_scale == 1.0 / 8);
    assert_true(isinf(d.scalars.gradient_limit));
    d = update_gate_begin(&scaler, 0);
    /* limits elements of the mean, so it does not depend on the number of items */
    request.clip_value = 0.5;
    gate_update(&d, 1, 64.0 * 100, &request);
    assert_true(d.scalars.gradient_limit == 0.5 && d.scalars.gradient_scale == 1.0 / 8);
}

static void the_factors_belong_to_the_next_update(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(true, VALID);
    struct update_gate d = update_gate_begin(&scaler, 7);
    const struct update_gate_request request = request_of(0, 7);
    gate_update(&d, 1, 1, &request);
    assert_true(d.scalars.lr == 7 && d.scalars.correction1 == 100 && d.scalars.correction2 == 200);
    gate_update(&d, 1, INFINITY, &request); /* skipped */
    assert_true(d.scalars.is_skipped && d.scalars.lr == 8);
    gate_update(&d, 1, 1, &request);
    assert_true(!d.scalars.is_skipped && d.scalars.lr == 8 && d.scalars.correction1 == 101);
    assert_int_equal(d.updates_count, 9);
}

static void a_tolerated_overflow_skips_only_its_step(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(true, VALID);
    struct update_gate d = update_gate_begin(&scaler, 0);
    const struct update_gate_request request = request_of(0, 0);
    assert_true(d.loss_factor == (double)SCALER_FIRST / VALID);
    gate_update(&d, NAN, 1, &request);
    assert_true(d.scalars.is_skipped && !d.is_finite && !d.has_failed && d.updates_count == 0);
    assert_true(d.scaler.scale == SCALER_FIRST / 2 &&
                d.loss_factor == (double)SCALER_FIRST / 2 / VALID);
    gate_update(&d, 1, 4 * d.loss_factor * d.loss_factor * VALID * VALID, &request);
    assert_true(!d.scalars.is_skipped && d.is_finite && d.updates_count == 1);
    assert_true(d.norm == 2 && d.scalars.gradient_scale == 1 / (d.loss_factor * VALID));
}

static void after_a_failure_nothing_is_updated(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(false, VALID);
    struct update_gate d = update_gate_begin(&scaler, 3);
    const struct update_gate_request request = request_of(0, 3);
    gate_update(&d, INFINITY, 1, &request);
    assert_true(d.scalars.is_skipped && d.has_failed);
    gate_update(&d, 1, 1, &request);
    assert_true(d.is_finite && d.scalars.is_skipped && d.has_failed);
    assert_int_equal(d.updates_count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_clipped_to_the_norm_and_never_enlarged),
        cmocka_unit_test(the_factors_belong_to_the_next_update),
        cmocka_unit_test(a_tolerated_overflow_skips_only_its_step),
        cmocka_unit_test(after_a_failure_nothing_is_updated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
