/*
 * exact_sum — sums have the same bits in any order and grouping, and equal Python's math.fsum.
 */
#include "base/numeric/exact_sum.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 60, CASES = 3000 };

/* Term i of a case. Kinds of cases: wide ranges, narrow ranges (many ties), cancellation,
 * subnormals. */
static double make_term(uint32_t test_case, uint32_t i)
{
    struct philox_block block = philox(99, test_case, i);
    double unit = (double)((uint64_t)block.word[0] << 21 ^ block.word[1] >> 11) * 0x1p-53;
    double sign = block.word[2] & 1 ? -1 : 1;
    int spread = (int)(block.word[3] % 2000);
    switch (test_case % 6) {
    case 0:
        return sign * ldexp(1 + unit, spread - 1070); /* 2^-1070 .. 2^930 */
    case 1:
        return sign * (block.word[3] % 16) * 0x1p-53 + (i == 0 ? 1 : 0);
    case 2: /* pairs that cancel, and one small term that remains */
        return i == TERMS - 1 ? 0x1p-1060 * (1 + unit)
               : i % 2        ? -make_term(test_case, i - 1)
                              : sign * ldexp(1 + unit, spread - 1000);
    case 3:
        return sign * (block.word[0] % 1000) * 0x1p-1074;
    case 4:
        /* each below the last bit of the previous one */
        return sign * ldexp(1 + unit, 900 - (int)i * 33);
    default:
        return sign * ldexp((double)(block.word[0] % 3), (int)(block.word[3] % 120) - 60);
    }
}

static double sum_in_groups(uint32_t test_case, uint32_t stride, uint32_t groups)
{
    struct exact_sum total = {0}, part[8] = {0};
    for (uint32_t i = 0; i < TERMS; i++) {
        uint32_t at = i * stride % TERMS; /* stride and TERMS have no common factor */
        exact_sum_add(&part[i * 7 % groups], make_term(test_case, at));
    }
    for (uint32_t group = groups; group-- > 0;)
        exact_sum_merge(&total, &part[group]);
    return exact_sum_value(&total);
}

static void bits_do_not_depend_on_order_or_grouping(void **state)
{
    (void)state;
    for (uint32_t test_case = 0; test_case < CASES; test_case++) {
        double first = sum_in_groups(test_case, 1, 1);
        for (uint32_t groups = 1; groups <= 8; groups++) {
            double other = sum_in_groups(test_case, groups % 2 ? 7 : 53, groups);
            assert_memory_equal(&first, &other, sizeof first);
        }
    }
}

static void values_equal_python_fsum(void **state)
{
    (void)state;
    const char *python = test_need_python("math");
    char folder[TEST_PATH_BYTES_MAX], terms_path[TEST_PATH_BYTES_MAX + 16],
        sums_path[TEST_PATH_BYTES_MAX + 16];
    test_make_folder(folder);
    double *terms = malloc(CASES * TERMS * sizeof *terms), *sums = malloc(CASES * sizeof *sums);
    assert_non_null(terms);
    assert_non_null(sums);
    for (uint32_t test_case = 0; test_case < CASES; test_case++) {
        for (uint32_t i = 0; i < TERMS; i++)
            terms[test_case * TERMS + i] = make_term(test_case, i);
        sums[test_case] = sum_in_groups(test_case, 1, 1);
    }
    snprintf(terms_path, sizeof terms_path, "%s/terms", folder);
    snprintf(sums_path, sizeof sums_path, "%s/sums", folder);
    test_write_file(terms_path, terms, CASES * TERMS * sizeof *terms);
    test_write_file(sums_path, sums, CASES * sizeof *sums);
    assert_int_equal(
        test_run(
            "'%s' -c \"import array,math\n"
            "t=array.array('d',open('%s','rb').read());s=array.array('d',open('%s','rb').read())\n"
            "for i in range(len(s)):\n"
            " w=math.fsum(t[i*%d:(i+1)*%d])\n"
            " assert w==s[i],(i,w.hex(),s[i].hex())\n\"",
            python, terms_path, sums_path, TERMS, TERMS),
        0);
    free(terms);
    free(sums);
    test_remove_folder(folder);
}

static double compute_sum(const double *terms, size_t count)
{
    struct exact_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        exact_sum_add(&sum, terms[i]);
    return exact_sum_value(&sum);
}

static void sums_are_exact_at_the_ends_of_the_range(void **state)
{
    (void)state;
    struct exact_sum nothing = {0};
    assert_true(exact_sum_value(&nothing) == 0);
    assert_true(compute_sum((double[]){DBL_MAX, 1, -DBL_MAX}, 3) == 1);
    assert_true(compute_sum((double[]){DBL_MAX, 0x1p-1074, -DBL_MAX}, 3) == 0x1p-1074);
    assert_true(compute_sum((double[]){-DBL_MAX}, 1) == -DBL_MAX);
    assert_true(compute_sum((double[]){DBL_MAX, DBL_MAX}, 2) == INFINITY);
    assert_true(compute_sum((double[]){DBL_MAX, DBL_MAX, -DBL_MAX}, 3) == DBL_MAX);
    assert_true(compute_sum((double[]){DBL_MIN, -0x1p-1074}, 2) == DBL_MIN - 0x1p-1074);
    assert_true(compute_sum((double[]){1, 0x1p-53}, 2) == 1); /* a tie: to even */
    assert_true(compute_sum((double[]){1, 0x1p-53, 0x1p-1074}, 3) == 1 + DBL_EPSILON);
    assert_true(compute_sum((double[]){1 + DBL_EPSILON, 0x1p-53}, 2) == 1 + 2 * DBL_EPSILON);
    assert_true(compute_sum((double[]){-1, -0x1p-53, -0x1p-1074}, 3) == -1 - DBL_EPSILON);
}

static void one_non_finite_term_makes_the_sum_nan(void **state)
{
    (void)state;
    assert_true(isnan(compute_sum((double[]){1, INFINITY}, 2)));
    assert_true(isnan(compute_sum((double[]){NAN, 1}, 2)));
    struct exact_sum a = {0}, b = {0};
    exact_sum_add(&a, 1);
    exact_sum_add(&b, -INFINITY);
    exact_sum_merge(&a, &b);
    assert_true(isnan(exact_sum_value(&a)));
}

static void millions_of_terms_do_not_overflow(void **state)
{
    (void)state;
    struct exact_sum sum = {0};
    enum { COUNT = 1 << 20 };
    for (int i = 0; i < COUNT; i++)
        exact_sum_add(&sum, 0x1.fffffffffffffp+900);
    /* 2^30 additions, the documented maximum */
    for (int doubling = 0; doubling < 10; doubling++) {
        struct exact_sum copy = sum;
        exact_sum_merge(&sum, &copy);
    }
    assert_true(exact_sum_value(&sum) == 0x1.fffffffffffffp+930);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_order_or_grouping),
        cmocka_unit_test(values_equal_python_fsum),
        cmocka_unit_test(sums_are_exact_at_the_ends_of_the_range),
        cmocka_unit_test(one_non_finite_term_makes_the_sum_nan),
        cmocka_unit_test(millions_of_terms_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
