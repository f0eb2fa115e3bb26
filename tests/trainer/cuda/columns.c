/*
 * columns — tests column sums on the device against sums in double.
 */
#include "trainer/ops/cuda/columns.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* n additions in float lose at most n half units in the last place of the sum of magnitudes. */
static double float_error(const double *x, uint64_t rows, uint64_t cols, double before)
{
    double largest = 0;
    for (uint64_t col = 0; col < cols; col++) {
        double sum = before;
        for (uint64_t row = 0; row < rows; row++)
            sum += fabs(x[row * cols + col]);
        largest = fmax(largest, sum);
    }
    struct cuda_columns_chunks chunks = cuda_columns_split(rows);
    return ldexp((double)(chunks.rows + chunks.count + 8) * largest, -24);
}

/* before NULL: the sums overwrite the output, which is NaN before. */
static double *bias_bwd_on_device(enum dtype dtype, const double *x_values, uint64_t rows,
                                  uint64_t cols, const double *before)
{
    void *x = cuda_case_array(dtype, x_values, rows * cols);
    float *out =
        before ? cuda_case_array(DTYPE_F32, before, cols) : cuda_case_blank(DTYPE_F32, cols);
    float *workspace = cuda_case_blank(DTYPE_F32, cuda_bias_bwd_workspace_floats(rows, cols));
    cuda_ok(cuda_bias_bwd(dtype, out, x, rows, cols, before != NULL, workspace, NULL));
    double *found = cuda_case_read(DTYPE_F32, out, cols);
    free(cuda_case_read(DTYPE_F32, workspace, cuda_bias_bwd_workspace_floats(rows, cols)));
    cuda_case_free(x);
    cuda_case_free(out);
    cuda_case_free(workspace);
    return found;
}

static void check_bias_bwd(enum dtype dtype, uint64_t rows, uint64_t cols, bool accumulate)
{
    double *x = cuda_case_values(dtype, 1, rows * cols, 1),
           *before = cuda_case_values(DTYPE_F32, 2, cols, 4);
    double *expected = malloc(cols * sizeof *expected), *first = NULL;
    assert_non_null(expected);
    memcpy(expected, before, cols * sizeof *expected);
    struct ops *ops = cuda_case_cpu_open();
    ops->table->bias_bwd(ops, expected, x, rows, cols, accumulate);
    cuda_case_cpu_close(ops);
    char name[64];
    snprintf(name, sizeof name, "%d rows of %d %s", (int)rows, (int)cols, dtype_name(dtype));
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        double *found = bias_bwd_on_device(dtype, x, rows, cols, accumulate ? before : NULL);
        cuda_case_near(name, DTYPE_F32, found, expected, cols,
                       float_error(x, rows, cols, accumulate ? 4 : 0));
        if (first)
            assert_memory_equal(found, first, cols * sizeof *found);
        free(first);
        first = found;
    }
    order_set(0);
    free(x), free(before), free(expected), free(first);
}

static void columns_of_any_size_are_summed(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{1, 1},    {1, 2049}, {15, 7},   {16, 64},
                                        {17, 63},  {17, 257}, {33, 768}, {40, 1000},
                                        {300, 64}, {300, 65}, {4097, 3}, {5000, 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int d = 0; d < DTYPES_COUNT; d++) {
            uint64_t rows = sizes[i][0], cols = sizes[i][1];
            if (test_is_sanitized() && rows * cols > 20000)
                continue;
            check_bias_bwd(DTYPES[d], rows, cols, i % 2);
        }
    check_bias_bwd(DTYPE_BF16, 17, 256, false);
    check_bias_bwd(DTYPE_BF16, 17, 256, true);
}

static void few_chunks_cover_every_row(void **state)
{
    (void)state;
    static const uint64_t rows[] = {1,    15,   16,    17,    300,        4095,
                                    4096, 4097, 65537, 99991, 1ull << 31, (1ull << 40) + 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cuda_columns_chunks chunks = cuda_columns_split(rows[i]);
        assert_true(chunks.count >= 1 && chunks.count <= COLUMNS_CHUNKS_MAX);
        assert_true((chunks.count - 1) * chunks.rows < rows[i] &&
                    rows[i] <= chunks.count * chunks.rows);
        assert_true(chunks.rows <= COLUMNS_CHUNK_ROWS || chunks.count > COLUMNS_CHUNKS_MAX / 2);
    }
}

/* Sums partial products, or rows that are wider than the summed columns. */
static void check_fold(uint32_t chunks, uint64_t stride, uint64_t cols, bool accumulate)
{
    double *x = cuda_case_values(DTYPE_F32, 1, chunks * stride, 1);
    double *before = cuda_case_values(DTYPE_F32, 2, cols, 4), *first = NULL;
    double *expected = calloc(cols, sizeof *expected);
    assert_non_null(expected);
    for (uint64_t col = 0; col < cols; col++) {
        expected[col] = accumulate ? before[col] : 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++)
            expected[col] += x[chunk * stride + col];
    }
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        float *out = accumulate ? cuda_case_array(DTYPE_F32, before, cols)
                                : cuda_case_blank(DTYPE_F32, cols);
        float *partials = cuda_case_array(DTYPE_F32, x, chunks * stride);
        cuda_ok(cuda_columns_fold(out, partials, chunks, stride, cols, accumulate, NULL));
        double *found = cuda_case_read(DTYPE_F32, out, cols);
        cuda_case_near("fold", DTYPE_F32, found, expected, cols,
                       ldexp(chunks * (chunks + 4.0), -24));
        if (first)
            assert_memory_equal(found, first, cols * sizeof *found);
        free(first);
        first = found;
        cuda_case_free(out);
        cuda_case_free(partials);
    }
    order_set(0);
    free(x), free(before), free(expected), free(first);
}

static void any_number_of_partial_sums_is_added(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 2, 7, 8, 16, 17, 33, 255, 256};
    static const uint64_t cols[] = {1, 31, 64, 257, 768, 1001};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++)
        for (size_t j = 0; j < sizeof cols / sizeof cols[0]; j++) {
            if (test_is_sanitized() && (cols[j] > 64 || chunks[i] == 255) && chunks[i] != 33)
                continue;
            check_fold(chunks[i], cols[j], cols[j], j % 2);
            check_fold(chunks[i], 2 * cols[j], cols[j], !(j % 2));
        }
}

static void types_without_kernels_are_refused(void **state)
{
    (void)state;
    assert_int_equal(cuda_bias_bwd(DTYPE_F64, NULL, NULL, 1, 1, false, NULL, NULL),
                     cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_any_size_are_summed),
        cmocka_unit_test(few_chunks_cover_every_row),
        cmocka_unit_test(any_number_of_partial_sums_is_added),
        cmocka_unit_test(types_without_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
