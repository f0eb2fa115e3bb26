/*
 * params — tests the layout of tensors in their arena, and their initial values.
 */
#include "trainer/models/params.h"

#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct param *add(struct params *params, struct param_spec spec)
{
    struct err err;
    uint64_t index;
    assert_ok(params_add(params, &spec, &index, &err), &err);
    return &params->list[index];
}

static void begin_unit(struct params *params, const char *name)
{
    struct err err;
    assert_ok(params_begin_unit(params, name, &err), &err);
}

static void tensors_are_aligned_and_contiguous(void **state)
{
    (void)state;
    struct params params = {0};
    begin_unit(&params, "a");
    assert_int_equal(add(&params, (struct param_spec){.name = "q", .rows = 3, .cols = 5})->offset,
                     0);
    assert_int_equal(
        add(&params, (struct param_spec){.name = "k", .rows = 3, .cols = 5, .neighbor = true})
            ->offset,
        15);
    const struct param *bias = add(&params, (struct param_spec){.name = "bias", .rows = 70});
    assert_int_equal(bias->offset, PARAMS_ALIGN);
    assert_int_equal(bias->rank, 1);
    assert_int_equal(bias->count, 70);
    begin_unit(&params, "b");
    const struct param *last = add(&params, (struct param_spec){.name = "last", .rows = 1});
    assert_int_equal(last->offset, 3 * PARAMS_ALIGN);
    assert_int_equal(last->group, 1);
    assert_int_equal(params.groups[0].first, 0);
    assert_int_equal(params.groups[0].count, 3);
    assert_int_equal(params.groups[0].elements, 3 * PARAMS_ALIGN);
    assert_int_equal(params.groups[1].offset, 3 * PARAMS_ALIGN);
    assert_int_equal(params.groups[1].elements, PARAMS_ALIGN);
    assert_int_equal(params.elements, 4 * PARAMS_ALIGN);
    assert_ptr_equal(params_find(&params, "bias"), &params.list[2]);
    assert_null(params_find(&params, "none"));
    params_deinit(&params);
}

/* Five units of 10, 30, 30, 10 and 5 parameters. */
static struct params five_units(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static const uint64_t rows[] = {10, 30, 30, 10, 5};
    struct params params = {0};
    for (int i = 0; i < 5; i++) {
        begin_unit(&params, names[i]);
        add(&params, (struct param_spec){.name = names[i], .rows = rows[i]});
    }
    return params;
}

static void neighboring_units_are_joined_up_to_the_minimum_size(void **state)
{
    (void)state;
    struct params params = five_units();
    params_join_units(&params, 40);
    assert_int_equal(params.units_count, 5);
    /* the last 5 parameters would be too few for a group */
    assert_int_equal(params.groups_count, 2);
    assert_string_equal(params.groups[0].name, "a to b");
    assert_string_equal(params.groups[1].name, "c to e");
    assert_int_equal(params.groups[1].first, 2);
    assert_int_equal(params.groups[1].count, 3);
    assert_int_equal(params.groups[1].offset, 2 * PARAMS_ALIGN);
    assert_int_equal(params.groups[1].elements, 3 * PARAMS_ALIGN);
    for (uint64_t unit = 0; unit < 5; unit++)
        assert_int_equal(params_group_of(&params, unit), unit >= 2);
    params.list[2].frozen = true;
    params_lay_out_trained(&params);
    assert_int_equal(params.groups[1].trained_offset, 2 * PARAMS_ALIGN);
    assert_int_equal(params.groups[1].trained_elements, 2 * PARAMS_ALIGN);
    assert_int_equal(params.units[3].trained_offset, 2 * PARAMS_ALIGN);
    params_deinit(&params);
}

static void units_are_single_or_joined_into_one(void **state)
{
    (void)state;
    struct params params = five_units();
    params_join_units(&params, 0);
    assert_int_equal(params.groups_count, 5);
    assert_string_equal(params.groups[4].name, "e");
    params_join_units(&params, 1000); /* more than all units together */
    assert_int_equal(params.groups_count, 1);
    assert_int_equal(params.groups[0].elements, params.elements);
    params_deinit(&params);
}

static void the_space_after_a_tensor_is_padding(void **state)
{
    (void)state;
    struct params params = {0};
    begin_unit(&params, "a");
    const struct param *table = add(
        &params, (struct param_spec){.name = "table", .rows = 5, .cols = 32, .padding_rows = 3});
    assert_int_equal(table->count, 5 * 32);
    assert_int_equal(table->shape[0], 5);
    assert_int_equal(
        add(&params, (struct param_spec){.name = "bias", .rows = 62, .padding_rows = 3})->offset,
        8 * 32);
    assert_int_equal(params.elements, 8 * 32 + 2 * PARAMS_ALIGN);
    struct param_spec spec = {
        .name = "w", .rows = 1, .cols = UINT64_C(1) << 32, .padding_rows = UINT64_C(1) << 32};
    struct err err;
    uint64_t index;
    assert_int_equal(params_add(&params, &spec, &index, &err), -EINVAL);
    params_deinit(&params);
}

static void a_tensor_too_large_or_a_name_too_long_is_refused(void **state)
{
    (void)state;
    struct params params = {0};
    struct err err;
    uint64_t index;
    char name[2 * PARAMS_NAME_BYTES_MAX];
    begin_unit(&params, "a");
    struct param_spec spec = {.name = "w", .rows = UINT64_C(1) << 40, .cols = UINT64_C(1) << 40};
    assert_int_equal(params_add(&params, &spec, &index, &err), -EINVAL);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    spec = (struct param_spec){.name = name, .rows = 1};
    assert_int_equal(params_add(&params, &spec, &index, &err), -EINVAL);
    assert_int_equal(params.count, 0);
    assert_int_equal(params.elements, 0);
    params_deinit(&params);
}

static void initial_values_have_the_given_mean_and_deviation(void **state)
{
    (void)state;
    struct params params = {0};
    begin_unit(&params, "a");
    const struct param_spec normal = {
        .name = "normal", .rows = 301, .cols = 333, .init = PARAM_NORMAL, .deviation = 0.5};
    const struct param_spec odd = {.name = "odd", .rows = 5, .init = PARAM_NORMAL, .deviation = 1};
    add(&params, normal);
    add(&params, (struct param_spec){.name = "ones", .rows = 3, .init = PARAM_ONES});
    add(&params, odd);
    double *arena = malloc(params.elements * sizeof *arena);
    assert_non_null(arena);
    memset(arena, 0xff, params.elements * sizeof *arena);
    params_init_values(&params, 1, DTYPE_F64, arena);
    uint64_t count = 301 * 333;
    double sum = 0, squares = 0, fourths = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += arena[i];
        squares += arena[i] * arena[i];
        fourths += pow(arena[i], 4);
    }
    double variance = squares / (double)count;
    assert_true(fabs(sum / (double)count) < 5 * 0.5 / sqrt((double)count));
    assert_true(fabs(variance - 0.25) < 0.005);
    /* a normal distribution has kurtosis 3 */
    assert_true(fabs(fourths / (double)count / variance / variance - 3) < 0.1);
    for (uint64_t i = count; i < params.elements; i++) {
        bool one = i >= params.list[1].offset && i < params.list[1].offset + 3;
        bool drawn = i >= params.list[2].offset && i < params.list[2].offset + 5;
        assert_true(one     ? arena[i] == 1
                    : drawn ? arena[i] != 0 && isfinite(arena[i])
                            : arena[i] == 0);
    }
    free(arena);
    params_deinit(&params);
}

static void initial_values_depend_only_on_seed_and_name(void **state)
{
    (void)state;
    struct params here = {0}, there = {0};
    const struct param_spec w = {
        .name = "w", .rows = 9, .cols = 7, .init = PARAM_NORMAL, .deviation = 0.02};
    struct param_spec v = w;
    v.name = "v";
    begin_unit(&here, "a");
    add(&here, w);
    add(&here, v);
    begin_unit(&there, "a");
    add(&there, v);
    begin_unit(&there, "b");
    add(&there, (struct param_spec){.name = "pad", .rows = 1});
    add(&there, w);
    float *a = calloc(here.elements, sizeof *a), *b = calloc(there.elements, sizeof *b);
    assert_non_null(a);
    assert_non_null(b);
    params_init_values(&here, 1, DTYPE_F32, a);
    params_init_values(&there, 1, DTYPE_F32, b);
    uint64_t w_there = params_find(&there, "w")->offset, v_here = params_find(&here, "v")->offset;
    assert_memory_equal(a, b + w_there, 63 * sizeof *a);
    assert_memory_equal(a + v_here, b, 63 * sizeof *a);
    assert_memory_not_equal(a, b, 63 * sizeof *a);
    params_init_values(&there, 2, DTYPE_F32, b);
    assert_memory_not_equal(a, b + w_there, 63 * sizeof *a);
    free(a);
    free(b);
    params_deinit(&here);
    params_deinit(&there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_aligned_and_contiguous),
        cmocka_unit_test(neighboring_units_are_joined_up_to_the_minimum_size),
        cmocka_unit_test(units_are_single_or_joined_into_one),
        cmocka_unit_test(the_space_after_a_tensor_is_padding),
        cmocka_unit_test(a_tensor_too_large_or_a_name_too_long_is_refused),
        cmocka_unit_test(initial_values_have_the_given_mean_and_deviation),
        cmocka_unit_test(initial_values_depend_only_on_seed_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
