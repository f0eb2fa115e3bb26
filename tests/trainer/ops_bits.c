/*
 * ops_bits — tests that the result bits of the CPU ops depend on shapes and values, never on
 * threads.
 */
#include "tests/trainer/ops_case.h"

#include <errno.h>
#include <string.h>

static void assert_same_bits(const struct ops_case_run *found, const struct ops_case_run *expected,
                             const char *description)
{
    assert_int_equal(found->count, expected->count);
    for (size_t i = 0; i < found->count; i++) {
        const struct ops_case_output *f = &found->outputs[i], *e = &expected->outputs[i];
        if (memcmp(f->data, e->data, e->count * e->element_bytes) != 0)
            fail_msg("%s differs %s", e->name, description);
    }
}

static void check_threads(enum dtype compute)
{
    struct ops_case_run alone, shared;
    struct ops *ops = ops_case_open(compute, 1);
    ops_case_run_all(ops, &alone);
    ops_case_run_all(ops, &shared);
    assert_same_bits(&shared, &alone, "when run again");
    ops_case_run_deinit(&shared);
    ops_close(ops);
    for (unsigned threads = 2; threads <= 5; threads++) {
        ops = ops_case_open(compute, threads);
        ops_case_run_all(ops, &shared);
        assert_same_bits(&shared, &alone, "with more threads");
        ops_case_run_deinit(&shared);
        ops_close(ops);
    }
    ops_case_run_deinit(&alone);
}

static void float_results_do_not_depend_on_thread_count(void **state)
{
    (void)state;
    check_threads(DTYPE_F32);
}

static void double_results_do_not_depend_on_thread_count(void **state)
{
    (void)state;
    check_threads(DTYPE_F64);
}

static void float_and_double_agree_to_float_precision(void **state)
{
    (void)state;
    struct ops_case_run narrow, wide;
    struct ops *narrow_ops = ops_case_open(DTYPE_F32, 1), *wide_ops = ops_case_open(DTYPE_F64, 1);
    ops_case_run_all(narrow_ops, &narrow);
    ops_case_run_all(wide_ops, &wide);
    for (size_t i = 0; i < narrow.count; i++) {
        const struct ops_case_output *n = &narrow.outputs[i], *w = &wide.outputs[i];
        if (n->element_bytes == 1) {
            assert_memory_equal(n->data, w->data, n->count);
            continue;
        }
        double *found = n->is_real ? ops_case_to_doubles(narrow_ops, n->data, n->count) : n->data;
        ops_case_assert_near(n->name, found, w->data, n->count, 3e-5);
        if (n->is_real)
            free(found);
    }
    ops_case_run_deinit(&narrow);
    ops_case_run_deinit(&wide);
    ops_close(narrow_ops);
    ops_close(wide_ops);
}

static void numerics_id_names_processor_and_library_but_not_threads(void **state)
{
    (void)state;
    struct str one = {0}, three = {0};
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    ops->table->numerics_id(ops, &one);
    ops_close(ops);
    ops = ops_case_open(DTYPE_F32, 3);
    ops->table->numerics_id(ops, &three);
    ops_close(ops);
    assert_string_equal(str_text(&one), str_text(&three));
    assert_non_null(strstr(str_text(&one), "cpu: "));
    assert_non_null(strstr(str_text(&one), "OpenBLAS 0."));
    assert_non_null(strstr(str_text(&one), "F32"));
    str_deinit(&one);
    str_deinit(&three);
}

static void wide_vectors_are_used_if_the_processor_has_them(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (getenv("OPENBLAS_CORETYPE"))
        test_skip("OPENBLAS_CORETYPE chooses the kernels");
    struct str id = {0};
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    ops->table->numerics_id(ops, &id);
    ops_close(ops);
    if (__builtin_cpu_supports("avx2") && strstr(str_text(&id), "(Prescott)"))
        fail_msg("%s: the library chose its slowest kernels; was it linked, not loaded?",
                 str_text(&id));
    str_deinit(&id);
#endif
}

static void failures_are_reported_once_by_the_next_sync(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F32, 2);
    float logits[4] = {0};
    double loss;
    uint8_t correct;
    int32_t target = 4;
    ops->table->xent(ops, &(struct xent_shape){1, 1, 1, 4, 4}, logits, &loss, &correct, &target,
                     NULL, &(const double){1});
    struct err err;
    assert_int_equal(ops->table->sync(ops, &err), -ERANGE);
    assert_string_equal(err.what, "target 4 of row 0 is not among the 4 classes");
    assert_int_equal(ops->table->sync(ops, &err), 0);
    target = 1;
    const int32_t second = -1;
    ops->table->xent(ops, &(struct xent_shape){1, 1, 1, 4, 4}, logits, &loss, &correct, &target,
                     &(struct xent_mix){&second, &(const float){0.5f}}, &(const double){1});
    assert_int_equal(ops->table->sync(ops, &err), -ERANGE);
    assert_string_equal(err.what, "target -1 of row 0 is not among the 4 classes");
    const struct attn_shape unplanned = {1, 8, 1, 1, 4, false};
    ops->table->attn_fwd(ops, &unplanned, logits, logits, logits, NULL);
    assert_int_equal(ops->table->sync(ops, &err), -EINVAL);
    ops_close(ops);
}

static void impossible_shapes_are_refused_when_planned(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    struct gemm_plan plan;
    struct err err;
    assert_int_equal(
        ops->table->plan_gemm(ops, &(struct gemm_shape){.m = 0, .n = 1, .k = 1}, &plan, &err),
        -EINVAL);
    assert_int_equal(
        ops->table->plan_gemm(ops, &(struct gemm_shape){.m = UINT64_C(1) << 31, .n = 1, .k = 1},
                              &plan, &err),
        -EINVAL);
    assert_int_equal(ops->table->plan_attn(ops, &(struct attn_shape){1, 8, 3, 2, 4, false}, &err),
                     -EINVAL);
    ops_close(ops);
    assert_int_equal(ops_cpu_open(NULL, DTYPE_BF16, 1, &ops, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_results_do_not_depend_on_thread_count),
        cmocka_unit_test(double_results_do_not_depend_on_thread_count),
        cmocka_unit_test(float_and_double_agree_to_float_precision),
        cmocka_unit_test(numerics_id_names_processor_and_library_but_not_threads),
        cmocka_unit_test(wide_vectors_are_used_if_the_processor_has_them),
        cmocka_unit_test(failures_are_reported_once_by_the_next_sync),
        cmocka_unit_test(impossible_shapes_are_refused_when_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
