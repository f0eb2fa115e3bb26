/*
 * rows — tests embeddings, positions and pooling on the device against the CPU ops in double, in
 * every order of threads and blocks.
 *
 * Summed numbers are small multiples of 1/64: their float sums are exact in any order, so any
 * missing, extra or wrong row is detected.
 */
#include "trainer/ops/cuda/rows.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
/* One unit in the last place of numbers below 2. */
static const double ULPS[] = {0x1p-23, 0x1p-7, 0x1p-10};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

static int open_ops(void **state)
{
    *state = cuda_case_cpu_open();
    return 0;
}

static int close_ops(void **state)
{
    cuda_case_cpu_close(*state);
    return 0;
}

static double *allocate_doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

/* Multiples of 1/64 in [-1, 1]. */
static double *exact_values(uint64_t seed, size_t count)
{
    double *values = cuda_case_values(DTYPE_F64, seed, count, 1);
    for (size_t i = 0; i < count; i++)
        values[i] = rint(values[i] * 64) / 64;
    return values;
}

static void check_near(const char *what, enum dtype dtype, const double *found,
                       const double *expected, size_t count, double tolerance)
{
    double distance = cuda_case_max_error(found, expected, count);
    if (!(distance <= tolerance))
        fail_msg("%s of %zu numbers, %s: off by %g", what, count, dtype_name(dtype), distance);
}

/* Checks that found has the same bits in each order. *first is NULL initially; takes ownership of
 * found. */
static void check_same_bits(const char *what, double **first, double *found, size_t count)
{
    if (*first && memcmp(*first, found, count * sizeof *found) != 0)
        fail_msg("%s of %zu numbers: the bits depend on the order", what, count);
    free(*first);
    *first = found;
}

/* Ids for items * tokens rows, in an array with one extra id per item, which must not be read. */
struct id_case {
    uint64_t items, tokens, cols, vocabulary;
    int32_t *ids, *rows_by_id;
};

static uint64_t rows_of(const struct id_case *c)
{
    return c->items * c->tokens;
}

/* Row r has the id row_ids[r]. */
static struct id_case id_case_init(uint64_t items, uint64_t tokens, uint64_t cols,
                                   const int32_t *row_ids)
{
    struct id_case c = {items,
                        tokens,
                        cols,
                        1,
                        calloc(items * (tokens + 1), sizeof(int32_t)),
                        calloc(items * tokens, sizeof(int32_t))};
    assert_non_null(c.ids);
    assert_non_null(c.rows_by_id);
    for (uint64_t i = 0; i < items * (tokens + 1); i++)
        c.ids[i] = INT32_MAX;
    for (uint64_t row = 0; row < rows_of(&c); row++) {
        c.ids[row / tokens * (tokens + 1) + row % tokens] = row_ids[row];
        if ((uint64_t)row_ids[row] >= c.vocabulary)
            c.vocabulary = (uint64_t)row_ids[row] + 1;
    }
    c.vocabulary++; /* no row has the last id */
    uint64_t at = 0;
    for (int32_t id = 0; (uint64_t)id < c.vocabulary; id++)
        for (uint64_t row = 0; row < rows_of(&c); row++)
            if (row_ids[row] == id)
                c.rows_by_id[at++] = (int32_t)row;
    return c;
}

static void id_case_deinit(struct id_case *c)
{
    free(c->ids), free(c->rows_by_id);
}

static struct id_case random_ids(uint64_t items, uint64_t tokens, uint64_t cols,
                                 uint64_t vocabulary)
{
    int32_t *row_ids = calloc(items * tokens, sizeof *row_ids);
    double *random = cuda_case_values(DTYPE_F64, 7, items * tokens, 1);
    assert_non_null(row_ids);
    for (uint64_t row = 0; row < items * tokens; row++)
        row_ids[row] = (int32_t)(fabs(random[row]) * (double)vocabulary);
    struct id_case c = id_case_init(items, tokens, cols, row_ids);
    free(row_ids), free(random);
    return c;
}

static double *embed_on_device(int dtype, const struct id_case *c, const double *table,
                               const double *positions)
{
    size_t count = rows_of(c) * c->cols;
    struct cuda_embed embed = {
        cuda_case_bytes(c->ids, c->items * (c->tokens + 1) * sizeof(int32_t)), c->tokens + 1,
        c->items, c->tokens, c->cols};
    void *out = cuda_case_blank(DTYPES[dtype], count);
    void *on_device = cuda_case_array(DTYPES[dtype], table, c->vocabulary * c->cols);
    void *of_tokens =
        positions ? cuda_case_array(DTYPES[dtype], positions, c->tokens * c->cols) : NULL;
    cuda_ok(cuda_embed_fwd(DTYPES[dtype], &embed, out, on_device, of_tokens, NULL));
    double *found = cuda_case_read(DTYPES[dtype], out, count);
    cuda_case_free((void *)embed.ids), cuda_case_free(out), cuda_case_free(on_device);
    cuda_case_free(of_tokens);
    return found;
}

static void check_embed(struct ops *ops, const struct id_case *c, int dtype)
{
    size_t count = rows_of(c) * c->cols;
    double *table = cuda_case_values(DTYPES[dtype], 1, c->vocabulary * c->cols, 1);
    double *positions = cuda_case_values(DTYPES[dtype], 2, c->tokens * c->cols, 1);
    double *plain = allocate_doubles(count), *expected = allocate_doubles(count), *first = NULL,
           *first_plain = NULL;
    ops->table->embed_fwd(ops, plain, c->ids, c->tokens + 1, table, NULL, c->items, c->tokens,
                          c->cols);
    ops->table->embed_fwd(ops, expected, c->ids, c->tokens + 1, table, positions, c->items,
                          c->tokens, c->cols);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        check_same_bits("embeddings", &first_plain, embed_on_device(dtype, c, table, NULL), count);
        check_same_bits("embeddings with positions", &first,
                        embed_on_device(dtype, c, table, positions), count);
    }
    order_set(0);
    check_near("embeddings", DTYPES[dtype], first_plain, plain, count, 0);
    check_near("embeddings with positions", DTYPES[dtype], first, expected, count, ULPS[dtype]);
    free(table), free(positions), free(plain), free(expected), free(first), free(first_plain);
}

static void rows_of_the_table_are_copied_and_positions_added(void **state)
{
    static const struct {
        uint64_t items, tokens, cols, vocabulary;
    } sizes[] = {{1, 1, 1, 1}, {3, 7, 63, 11}, {2, 5, 257, 100}, {1, 9, 1000, 50}, {5, 13, 24, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct id_case c =
            random_ids(sizes[i].items, sizes[i].tokens, sizes[i].cols, sizes[i].vocabulary);
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++)
            check_embed(*state, &c, dtype);
        id_case_deinit(&c);
    }
}

static double *embed_bwd_on_device(int dtype, const struct id_case *c, const double *d_table,
                                   const double *d_out, bool accumulate)
{
    size_t table_count = c->vocabulary * c->cols,
           workspace_count = cuda_embed_bwd_workspace_floats(rows_of(c), c->cols);
    struct cuda_embed embed = {
        cuda_case_bytes(c->ids, c->items * (c->tokens + 1) * sizeof(int32_t)), c->tokens + 1,
        c->items, c->tokens, c->cols};
    struct cuda_embed_bwd_arrays arrays = {
        accumulate ? cuda_case_array(DTYPE_F32, d_table, table_count)
                   : cuda_case_blank(DTYPE_F32, table_count),
        cuda_case_array(DTYPES[dtype], d_out, rows_of(c) * c->cols),
        cuda_case_bytes(c->rows_by_id, rows_of(c) * sizeof(int32_t)),
        cuda_case_blank(DTYPE_F32, workspace_count),
    };
    cuda_ok(cuda_embed_bwd(DTYPES[dtype], &embed, &arrays, c->vocabulary, accumulate, NULL));
    double *found = cuda_case_read(DTYPE_F32, arrays.d_table, table_count);
    /* checks that nothing was written past the end */
    free(cuda_case_read(DTYPE_F32, arrays.workspace, workspace_count));
    cuda_case_free((void *)embed.ids), cuda_case_free(arrays.d_table),
        cuda_case_free((void *)arrays.d_out);
    cuda_case_free((void *)arrays.rows_by_id), cuda_case_free(arrays.workspace);
    return found;
}

static void check_embed_bwd(struct ops *ops, const struct id_case *c, int dtype, bool accumulate)
{
    size_t count = c->vocabulary * c->cols;
    double *d_out = exact_values(1, rows_of(c) * c->cols), *d_table = exact_values(2, count);
    double *inexact = cuda_case_values(DTYPES[dtype], 3, rows_of(c) * c->cols, 1);
    double *expected = allocate_doubles(count), *first = NULL;
    memcpy(expected, d_table, count * sizeof *expected);
    ops->table->embed_bwd(ops, expected, d_out, c->ids, c->tokens + 1, NULL, c->items, c->tokens,
                          c->cols, c->vocabulary, accumulate);
    double *found = embed_bwd_on_device(dtype, c, d_table, d_out, accumulate);
    check_near("gradients of embeddings", DTYPES[dtype], found, expected, count, 0);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        check_same_bits("gradients of embeddings", &first,
                        embed_bwd_on_device(dtype, c, d_table, inexact, accumulate), count);
    }
    order_set(0);
    free(d_out), free(d_table), free(inexact), free(expected), free(found), free(first);
}

static void table_gradients_are_sums_of_rows(void **state)
{
    static const struct {
        uint64_t items, tokens, cols, vocabulary;
    } sizes[] = {{1, 1, 1, 1}, {3, 7, 63, 11}, {2, 67, 257, 100}, {1, 40, 1000, 5}, {5, 63, 24, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct id_case c =
            random_ids(sizes[i].items, sizes[i].tokens, sizes[i].cols, sizes[i].vocabulary);
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
            check_embed_bwd(*state, &c, dtype, false);
            check_embed_bwd(*state, &c, dtype, true);
        }
        id_case_deinit(&c);
    }
}

/* Ids in runs of these lengths, scattered over the rows of one item. */
static struct id_case id_runs(const uint64_t *lengths, size_t count, uint64_t cols)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += lengths[i];
    int32_t *row_ids = calloc(rows, sizeof *row_ids);
    assert_non_null(row_ids);
    uint64_t at = 0, step = 7;
    while (rows % step == 0)
        step += 2;
    for (size_t id = 0; id < count; id++)
        for (uint64_t i = 0; i < lengths[id]; i++, at++)
            row_ids[at * step % rows] = (int32_t)id;
    struct id_case c = id_case_init(1, rows, cols, row_ids);
    free(row_ids);
    return c;
}

/* Runs that begin and end at chunk boundaries, just before them and just after them. */
static void runs_of_equal_ids_may_start_and_end_anywhere(void **state)
{
    enum { CHUNK = CUDA_EMBED_CHUNK_ROWS };
    static const uint64_t lengths[][10] = {
        {CHUNK, CHUNK, 1, CHUNK - 1, CHUNK, CHUNK, 2 * CHUNK, 1, 1, 5},
        {1, CHUNK - 2, 1, CHUNK + 1, CHUNK - 2, 2, 3, CHUNK - 4, 1, CHUNK},
        {CHUNK + 1, CHUNK, CHUNK, 3 * CHUNK - 2, 2, CHUNK - 1, 1, 1, 1, 1},
        {5, 11 * CHUNK, 1, 9 * CHUNK, 3 * CHUNK, 1, 8 * CHUNK + 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct id_case c = id_runs(lengths[i], 10, 8);
        check_embed_bwd(*state, &c, 0, false);
        check_embed_bwd(*state, &c, 1, true);
        id_case_deinit(&c);
    }
}

/* One run has more chunks than a block processes in one pass. */
static void one_id_may_have_nearly_all_rows(void **state)
{
    const uint64_t lengths[] = {40, test_is_sanitized() ? 600 : 9000, 3};
    struct id_case c = id_runs(lengths, 3, 3);
    check_embed_bwd(*state, &c, 1, false);
    id_case_deinit(&c);
}

/* Items of matrices: rows of 4 and 8 elements and unaligned rows; several blocks; more items than
 * loads in flight. */
static const struct cuda_items_shape SHAPES[] = {{1, 1, 1},   {3, 7, 63},   {2, 63, 257},
                                                 {17, 4, 10}, {9, 3, 1000}, {2, 25, 24}};

enum { SHAPES_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static double *positions_on_device(int dtype, const struct cuda_items_shape *s, const double *x,
                                   const double *positions)
{
    size_t matrix = s->rows * s->cols, count = s->items * matrix;
    void *out = cuda_case_blank(DTYPES[dtype], count),
         *x_array = cuda_case_array(DTYPES[dtype], x, count);
    void *positions_array = cuda_case_array(DTYPES[dtype], positions, matrix);
    cuda_ok(cuda_positions_fwd(DTYPES[dtype], s, out, x_array, positions_array, NULL));
    double *found = cuda_case_read(DTYPES[dtype], out, count);
    cuda_case_free(out), cuda_case_free(x_array), cuda_case_free(positions_array);
    return found;
}

static void check_positions(struct ops *ops, const struct cuda_items_shape *s, int dtype)
{
    size_t matrix = s->rows * s->cols, count = s->items * matrix;
    double *x = cuda_case_values(DTYPES[dtype], 1, count, 1), *first = NULL;
    double *positions = cuda_case_values(DTYPES[dtype], 2, matrix, 1),
           *expected = allocate_doubles(count);
    ops->table->positions_fwd(ops, expected, x, positions, s->items, s->rows, s->cols);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        check_same_bits("positions", &first, positions_on_device(dtype, s, x, positions), count);
    }
    order_set(0);
    check_near("positions", DTYPES[dtype], first, expected, count, ULPS[dtype]);
    free(x), free(positions), free(expected), free(first);
}

static void positions_are_added_to_every_item(void **state)
{
    for (int i = 0; i < SHAPES_COUNT; i++)
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++)
            check_positions(*state, &SHAPES[i], dtype);
}

/* A grid has at most 65535 blocks along y. */
static void items_may_exceed_the_grids_y_limit(void **state)
{
    struct ops *ops = *state;
    const struct cuda_items_shape s = {test_is_sanitized() ? 700 : 65535 + 700, 1, 1};
    double *x = cuda_case_values(DTYPE_F32, 1, s.items, 1), position = 0.25,
           *expected = allocate_doubles(s.items);
    ops->table->positions_fwd(ops, expected, x, &position, s.items, s.rows, s.cols);
    double *found = positions_on_device(0, &s, x, &position);
    check_near("positions", DTYPE_F32, found, expected, s.items, ULPS[0]);
    free(x), free(expected), free(found);
}

static double *positions_bwd_on_device(int dtype, const struct cuda_items_shape *s,
                                       const double *d_positions, const double *d_out,
                                       bool accumulate)
{
    size_t matrix = s->rows * s->cols;
    void *out = accumulate ? cuda_case_array(DTYPE_F32, d_positions, matrix)
                           : cuda_case_blank(DTYPE_F32, matrix);
    void *d_out_array = cuda_case_array(DTYPES[dtype], d_out, s->items * matrix);
    cuda_ok(cuda_positions_bwd(DTYPES[dtype], s, out, d_out_array, accumulate, NULL));
    double *found = cuda_case_read(DTYPE_F32, out, matrix);
    cuda_case_free(out), cuda_case_free(d_out_array);
    return found;
}

static void position_gradients_are_sums_over_items(void **state)
{
    struct ops *ops = *state;
    for (int run = 0; run < 2 * SHAPES_COUNT * DTYPES_COUNT; run++) {
        const struct cuda_items_shape *s = &SHAPES[run / 2 % SHAPES_COUNT];
        int dtype = run / 2 / SHAPES_COUNT;
        size_t matrix = s->rows * s->cols;
        bool accumulate = run % 2;
        double *d_out = exact_values(1, s->items * matrix), *d_positions = exact_values(2, matrix);
        double *expected = allocate_doubles(matrix), *first = NULL;
        memcpy(expected, d_positions, matrix * sizeof *expected);
        ops->table->positions_bwd(ops, expected, d_out, s->items, s->rows, s->cols, accumulate);
        for (size_t order = 0; order < order_count(); order++) {
            order_set(order);
            check_same_bits("gradients of positions", &first,
                            positions_bwd_on_device(dtype, s, d_positions, d_out, accumulate),
                            matrix);
        }
        order_set(0);
        check_near("gradients of positions", DTYPES[dtype], first, expected, matrix, 0);
        free(d_out), free(d_positions), free(expected), free(first);
    }
}

static double *pool_on_device(int dtype, const struct cuda_items_shape *s, const double *x)
{
    void *out = cuda_case_blank(DTYPES[dtype], s->items * s->cols);
    void *x_array = cuda_case_array(DTYPES[dtype], x, s->items * s->rows * s->cols);
    cuda_ok(cuda_pool_fwd(DTYPES[dtype], s, out, x_array, NULL));
    double *found = cuda_case_read(DTYPES[dtype], out, s->items * s->cols);
    cuda_case_free(out), cuda_case_free(x_array);
    return found;
}

static double *pool_bwd_on_device(int dtype, const struct cuda_items_shape *s, const double *d_out)
{
    void *d_x = cuda_case_blank(DTYPES[dtype], s->items * s->rows * s->cols);
    void *d_out_array = cuda_case_array(DTYPES[dtype], d_out, s->items * s->cols);
    cuda_ok(cuda_pool_bwd(DTYPES[dtype], s, d_x, d_out_array, NULL));
    double *found = cuda_case_read(DTYPES[dtype], d_x, s->items * s->rows * s->cols);
    cuda_case_free(d_x), cuda_case_free(d_out_array);
    return found;
}

static void check_pool(struct ops *ops, const struct cuda_items_shape *s, int dtype)
{
    size_t few = s->items * s->cols, many = few * s->rows;
    double *x = exact_values(1, many), *d_out = cuda_case_values(DTYPES[dtype], 2, few, 1);
    double *mean = allocate_doubles(few), *d_x = allocate_doubles(many), *first = NULL,
           *first_bwd = NULL;
    ops->table->pool_fwd(ops, mean, x, s->items, s->rows, s->cols);
    ops->table->pool_bwd(ops, d_x, d_out, s->items, s->rows, s->cols);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        check_same_bits("means", &first, pool_on_device(dtype, s, x), few);
        check_same_bits("gradients of means", &first_bwd, pool_bwd_on_device(dtype, s, d_out),
                        many);
    }
    order_set(0);
    check_near("means", DTYPES[dtype], first, mean, few, ULPS[dtype]);
    check_near("gradients of means", DTYPES[dtype], first_bwd, d_x, many,
               ULPS[dtype] / (double)s->rows);
    free(x), free(d_out), free(mean), free(d_x), free(first), free(first_bwd);
}

static void pooling_is_the_mean_of_rows(void **state)
{
    for (int i = 0; i < SHAPES_COUNT; i++)
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++)
            check_pool(*state, &SHAPES[i], dtype);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    static const struct cuda_embed embed = {NULL, 1, 1, 1, 1};
    static const struct cuda_embed_bwd_arrays arrays = {NULL, NULL, NULL, NULL};
    static const struct cuda_items_shape items = {1, 1, 1};
    static const cudaError_t refused = cudaErrorInvalidValue;
    assert_int_equal(cuda_embed_fwd(DTYPE_F64, &embed, NULL, NULL, NULL, NULL), refused);
    assert_int_equal(cuda_embed_bwd(DTYPE_F64, &embed, &arrays, 1, true, NULL), refused);
    assert_int_equal(cuda_positions_fwd(DTYPE_F64, &items, NULL, NULL, NULL, NULL), refused);
    assert_int_equal(cuda_positions_bwd(DTYPE_U8, &items, NULL, NULL, false, NULL), refused);
    assert_int_equal(cuda_pool_fwd(DTYPE_F64, &items, NULL, NULL, NULL), refused);
    assert_int_equal(cuda_pool_bwd(DTYPE_F64, &items, NULL, NULL, NULL), refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_table_are_copied_and_positions_added),
        cmocka_unit_test(table_gradients_are_sums_of_rows),
        cmocka_unit_test(runs_of_equal_ids_may_start_and_end_anywhere),
        cmocka_unit_test(one_id_may_have_nearly_all_rows),
        cmocka_unit_test(positions_are_added_to_every_item),
        cmocka_unit_test(items_may_exceed_the_grids_y_limit),
        cmocka_unit_test(position_gradients_are_sums_over_items),
        cmocka_unit_test(pooling_is_the_mean_of_rows),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
