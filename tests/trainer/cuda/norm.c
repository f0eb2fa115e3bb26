/*
 * norm — tests LayerNorm and RMSNorm on the device, forward and backward, against the CPU ops in
 * double.
 */
#include "trainer/ops/cuda/norm.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* The error of float sums over a row of numbers up to 2, relative to the largest rstd. */
static const double FLOAT_LOSS = 1e-5;

/* The arrays that make up a result. */
enum array { OUT, MEAN, RSTD, D_X, D_WEIGHT, D_BIAS, ARRAYS };

static const char *const NAMES[ARRAYS] = {"out", "mean", "rstd", "d_x", "d_weight", "d_bias"};

/* Arrays are malloc'ed; NULL for those that RMSNorm lacks. */
struct result {
    double *array[ARRAYS];
};

struct inputs {
    double *x, *weight, *bias, *d_out, *d_x, *d_weight, *d_bias;
};

static size_t array_count(const struct norm_shape *shape, enum array array)
{
    return array == OUT || array == D_X     ? shape->rows * shape->cols
           : array == MEAN || array == RSTD ? shape->rows
                                            : shape->cols;
}

static bool has_array(const struct norm_shape *shape, enum array array)
{
    return shape->kind == NORM_LAYER || (array != MEAN && array != D_BIAS);
}

static struct inputs inputs_init(enum dtype dtype, const struct norm_shape *shape)
{
    size_t count = shape->rows * shape->cols, cols = shape->cols;
    return (struct inputs){
        .x = cuda_case_values(dtype, 1, count, 2),
        .weight = cuda_case_values(dtype, 2, cols, 1.5),
        .bias = cuda_case_values(dtype, 3, cols, 1),
        .d_out = cuda_case_values(dtype, 4, count, 1),
        .d_x = cuda_case_values(dtype, 5, count, 1),
        .d_weight = cuda_case_values(DTYPE_F32, 6, cols, 4),
        .d_bias = cuda_case_values(DTYPE_F32, 7, cols, 4),
    };
}

static void inputs_deinit(struct inputs *in)
{
    free(in->x), free(in->weight), free(in->bias), free(in->d_out), free(in->d_x);
    free(in->d_weight), free(in->d_bias);
}

static void result_deinit(struct result *result)
{
    for (int i = 0; i < ARRAYS; i++)
        free(result->array[i]);
}

static struct result norm_on_cpu(const struct norm_shape *shape, const struct inputs *in,
                                 bool accumulate)
{
    const double *const before[ARRAYS] = {
        [D_X] = in->d_x, [D_WEIGHT] = in->d_weight, [D_BIAS] = in->d_bias};
    struct result r = {0};
    for (enum array i = 0; i < ARRAYS; i++) {
        if (!has_array(shape, i))
            continue;
        assert_non_null(r.array[i] = calloc(array_count(shape, i), sizeof(double)));
        if (before[i])
            memcpy(r.array[i], before[i], array_count(shape, i) * sizeof(double));
    }
    bool layer = shape->kind == NORM_LAYER;
    struct ops *ops = cuda_case_cpu_open();
    ops->table->norm_fwd(ops, shape, r.array[OUT], r.array[MEAN], r.array[RSTD], in->x, in->weight,
                         layer ? in->bias : NULL);
    ops->table->norm_bwd(ops, shape, r.array[D_X], r.array[D_WEIGHT], r.array[D_BIAS], in->d_out,
                         in->x, r.array[MEAN], r.array[RSTD], in->weight, accumulate);
    cuda_case_cpu_close(ops);
    return r;
}

static enum dtype dtype_of(enum dtype dtype, enum array array)
{
    return array == OUT || array == D_X ? dtype : DTYPE_F32;
}

static struct result norm_on_device(enum dtype dtype, const struct norm_shape *shape,
                                    const struct inputs *in, bool accumulate)
{
    const double *const before[ARRAYS] = {[D_X] = in->d_x,
                                          [D_WEIGHT] = accumulate ? in->d_weight : NULL,
                                          [D_BIAS] = accumulate ? in->d_bias : NULL};
    void *device[ARRAYS] = {0};
    size_t count = shape->rows * shape->cols;
    for (enum array i = 0; i < ARRAYS; i++)
        if (has_array(shape, i))
            device[i] = before[i]
                            ? cuda_case_array(dtype_of(dtype, i), before[i], array_count(shape, i))
                            : cuda_case_blank(dtype_of(dtype, i), array_count(shape, i));
    void *x = cuda_case_array(dtype, in->x, count),
         *d_out = cuda_case_array(dtype, in->d_out, count);
    void *weight = cuda_case_array(dtype, in->weight, shape->cols);
    void *bias = shape->kind == NORM_LAYER ? cuda_case_array(dtype, in->bias, shape->cols) : NULL;
    float *workspace = cuda_case_blank(DTYPE_F32, cuda_norm_bwd_workspace_floats(shape));
    cuda_ok(cuda_norm_fwd(
        dtype, shape,
        &(struct cuda_norm_fwd_arrays){device[OUT], device[MEAN], device[RSTD], x, weight, bias},
        NULL));
    cuda_ok(cuda_norm_bwd(dtype, shape,
                          &(struct cuda_norm_bwd_arrays){.d_x = device[D_X],
                                                         .d_weight = device[D_WEIGHT],
                                                         .d_bias = device[D_BIAS],
                                                         .d_out = d_out,
                                                         .x = x,
                                                         .weight = weight,
                                                         .mean = device[MEAN],
                                                         .rstd = device[RSTD],
                                                         .workspace = workspace},
                          accumulate, NULL));
    struct result r = {0};
    for (enum array i = 0; i < ARRAYS; i++)
        if (device[i]) {
            r.array[i] = cuda_case_read(dtype_of(dtype, i), device[i], array_count(shape, i));
            cuda_case_free(device[i]);
        }
    free(cuda_case_read(DTYPE_F32, workspace, cuda_norm_bwd_workspace_floats(shape)));
    cuda_case_free(x);
    cuda_case_free(d_out);
    cuda_case_free(weight);
    cuda_case_free(bias);
    cuda_case_free(workspace);
    return r;
}

static double max_magnitude(const double *x, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* loss: the error of one element, which sums over rows accumulate. */
static void check_near(enum dtype dtype, const struct norm_shape *shape, const struct result *found,
                       const struct result *expected, double loss)
{
    for (enum array i = 0; i < ARRAYS; i++) {
        if (!has_array(shape, i))
            continue;
        char name[96];
        snprintf(name, sizeof name, "%s of %s norm of %s, %d x %d", NAMES[i],
                 shape->kind == NORM_LAYER ? "layer" : "RMS", dtype_name(dtype), (int)shape->rows,
                 (int)shape->cols);
        bool is_sum = i == D_WEIGHT || i == D_BIAS;
        cuda_case_near(name, dtype_of(dtype, i), found->array[i], expected->array[i],
                       array_count(shape, i), is_sum ? loss * (double)shape->rows : loss);
    }
}

static void check_norm(enum dtype dtype, const struct norm_shape *shape, bool accumulate,
                       size_t orders_count)
{
    struct inputs in = inputs_init(dtype, shape);
    struct result expected = norm_on_cpu(shape, &in, accumulate), first = {0};
    double loss = FLOAT_LOSS * fmax(1, max_magnitude(expected.array[RSTD], shape->rows));
    for (size_t order = 0; order < orders_count; order++) {
        order_set(order);
        struct result found = norm_on_device(dtype, shape, &in, accumulate);
        check_near(dtype, shape, &found, &expected, loss);
        for (enum array i = 0; order > 0 && i < ARRAYS; i++)
            if (has_array(shape, i))
                assert_memory_equal(found.array[i], first.array[i],
                                    array_count(shape, i) * sizeof(double));
        result_deinit(&first);
        first = found;
    }
    order_set(0);
    result_deinit(&first);
    result_deinit(&expected);
    inputs_deinit(&in);
}

/* Rows that a lane, a warp, one panel of columns or several panels hold, aligned and unaligned;
 * fewer rows than a block has warps, fewer than a chunk, and several chunks. */
static void check_sizes(enum norm_kind kind)
{
    static const uint64_t sizes[][2] = {{1, 1},     {3, 2},    {15, 7},   {17, 63},   {300, 64},
                                        {40, 65},   {5, 257},  {33, 512}, {17, 768},  {7, 1000},
                                        {20, 1024}, {3, 1536}, {3, 2049}, {18, 2056}, {2, 4104}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int d = 0; d < DTYPES_COUNT; d++) {
            const struct norm_shape shape = {kind, sizes[i][0], sizes[i][1], 1e-5};
            if (test_is_sanitized() && (shape.rows > 40 || shape.rows * shape.cols > 16000))
                continue;
            check_norm(DTYPES[d], &shape, (i + d) % 2, order_count());
        }
}

static void layer_norm_matches_the_cpu(void **state)
{
    (void)state;
    check_sizes(NORM_LAYER);
}

static void rms_norm_matches_the_cpu(void **state)
{
    (void)state;
    check_sizes(NORM_RMS);
}

/* Normalizes the k heads in rows of q, k and v, as in grouped-query attention; the gradient
 * replaces d_out. The rest of each row must not change. */
enum { QKV_ROWS = 37, Q_HEADS = 4, K_HEADS = 3, QKV_HEADS = Q_HEADS + 2 * K_HEADS };

struct qkv_heads {
    double *x, *weight, *d_out; /* for all heads */
    struct norm_shape shape;
};

static struct result heads_on_cpu(const struct qkv_heads *h, size_t at, size_t count)
{
    struct result r = {{[OUT] = calloc(count, sizeof(double)),
                        [RSTD] = calloc(h->shape.rows, sizeof(double)),
                        [D_X] = malloc(count * sizeof(double)),
                        [D_WEIGHT] = calloc(h->shape.cols, sizeof(double))}};
    memcpy(r.array[D_X], h->d_out, count * sizeof(double));
    struct ops *ops = cuda_case_cpu_open();
    ops->table->norm_fwd(ops, &h->shape, r.array[OUT] + at, NULL, r.array[RSTD], h->x + at,
                         h->weight, NULL);
    ops->table->norm_bwd(ops, &h->shape, r.array[D_X] + at, r.array[D_WEIGHT], NULL, NULL,
                         h->x + at, NULL, r.array[RSTD], h->weight, false);
    cuda_case_cpu_close(ops);
    return r;
}

static struct result heads_on_device(enum dtype dtype, const struct qkv_heads *h, size_t at,
                                     size_t count)
{
    const struct norm_shape *shape = &h->shape;
    size_t skipped = at * dtype_bytes(dtype);
    char *out = cuda_case_blank(dtype, count), *x = cuda_case_array(dtype, h->x, count),
         *d_x = cuda_case_array(dtype, h->d_out, count);
    void *weight = cuda_case_array(dtype, h->weight, shape->cols);
    float *rstd = cuda_case_blank(DTYPE_F32, shape->rows),
          *d_weight = cuda_case_blank(DTYPE_F32, shape->cols),
          *workspace = cuda_case_blank(DTYPE_F32, cuda_norm_bwd_workspace_floats(shape));
    cuda_ok(cuda_norm_fwd(
        dtype, shape,
        &(struct cuda_norm_fwd_arrays){out + skipped, NULL, rstd, x + skipped, weight, NULL},
        NULL));
    cuda_ok(cuda_norm_bwd(dtype, shape,
                          &(struct cuda_norm_bwd_arrays){.d_x = d_x + skipped,
                                                         .d_weight = d_weight,
                                                         .x = x + skipped,
                                                         .weight = weight,
                                                         .rstd = rstd,
                                                         .workspace = workspace},
                          false, NULL));
    struct result r = {{[OUT] = cuda_case_read(dtype, out, count),
                        [RSTD] = cuda_case_read(DTYPE_F32, rstd, shape->rows),
                        [D_X] = cuda_case_read(dtype, d_x, count),
                        [D_WEIGHT] = cuda_case_read(DTYPE_F32, d_weight, shape->cols)}};
    cuda_case_free(out), cuda_case_free(x), cuda_case_free(d_x), cuda_case_free(weight);
    cuda_case_free(rstd), cuda_case_free(d_weight), cuda_case_free(workspace);
    return r;
}

/* Compares out where the k heads are; elsewhere it is blank. */
static void check_heads(enum dtype dtype, uint64_t dim)
{
    size_t count = QKV_ROWS * QKV_HEADS * dim, at = Q_HEADS * dim;
    struct qkv_heads h = {.x = cuda_case_values(dtype, 1, count, 2),
                          .weight = cuda_case_values(dtype, 2, dim, 1.5),
                          .d_out = cuda_case_values(dtype, 3, count, 1),
                          .shape = {.kind = NORM_RMS,
                                    .rows = QKV_ROWS * K_HEADS,
                                    .cols = dim,
                                    .epsilon = 1e-5,
                                    .group_rows = K_HEADS,
                                    .group_stride = QKV_HEADS * dim}};
    struct result expected = heads_on_cpu(&h, at, count);
    double loss = FLOAT_LOSS * fmax(1, max_magnitude(expected.array[RSTD], h.shape.rows));
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct result found = heads_on_device(dtype, &h, at, count);
        for (size_t i = 0; i < count; i++)
            if (i / dim % QKV_HEADS < Q_HEADS || i / dim % QKV_HEADS >= Q_HEADS + K_HEADS) {
                assert_true(found.array[D_X][i] == h.d_out[i]);
                found.array[OUT][i] = expected.array[OUT][i];
            }
        cuda_case_near("out", dtype, found.array[OUT], expected.array[OUT], count, loss);
        cuda_case_near("d_x", dtype, found.array[D_X], expected.array[D_X], count, loss);
        cuda_case_near("d_weight", DTYPE_F32, found.array[D_WEIGHT], expected.array[D_WEIGHT], dim,
                       loss * (double)h.shape.rows);
        result_deinit(&found);
    }
    order_set(0);
    result_deinit(&expected);
    free(h.x), free(h.weight), free(h.d_out);
}

static void heads_within_rows_are_normalized_in_place(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES_COUNT; d++) {
        check_heads(DTYPES[d], 6);
        check_heads(DTYPES[d], 64);
        check_heads(DTYPES[d], 256);
    }
    assert_int_equal(cuda_norm_bwd(DTYPE_F32,
                                   &(struct norm_shape){.kind = NORM_RMS, .rows = 1, .cols = 257},
                                   &(struct cuda_norm_bwd_arrays){0}, false, NULL),
                     cudaErrorInvalidValue);
}

static void many_rows_are_split_into_longer_chunks(void **state)
{
    (void)state;
    uint64_t rows = test_is_sanitized() ? 100 : 4500;
    check_norm(DTYPE_F32, &(struct norm_shape){NORM_LAYER, rows, 12, 1e-5}, true, 2);
    check_norm(DTYPE_BF16, &(struct norm_shape){NORM_RMS, rows, 8, 1e-5}, false, 2);
}

/* The variance is the mean of squared differences; a difference of mean squares would lose it. */
static void a_mean_far_from_zero_keeps_the_variance_accurate(void **state)
{
    (void)state;
    static const struct norm_shape shape = {NORM_LAYER, 9, 100, 1e-5};
    struct inputs in = inputs_init(DTYPE_F32, &shape);
    for (size_t i = 0; i < shape.rows * shape.cols; i++)
        in.x[i] = cuda_case_round(DTYPE_F32, in.x[i] + 3000);
    struct result expected = norm_on_cpu(&shape, &in, false),
                  found = norm_on_device(DTYPE_F32, &shape, &in, false);
    /* near 3000, a unit in the last place is 2^-12; each partial sum loses half a unit of 3000 *
     * 100 / 32 */
    cuda_case_near("mean", DTYPE_F32, found.array[MEAN], expected.array[MEAN], shape.rows, 2e-3);
    cuda_case_near("rstd", DTYPE_F32, found.array[RSTD], expected.array[RSTD], shape.rows, 1e-5);
    cuda_case_near("out", DTYPE_F32, found.array[OUT], expected.array[OUT], shape.rows * shape.cols,
                   4e-3);
    result_deinit(&expected);
    result_deinit(&found);
    inputs_deinit(&in);
}

static void a_row_of_one_value_becomes_the_bias(void **state)
{
    (void)state;
    static const struct norm_shape shape = {NORM_LAYER, 3, 72, 1e-5};
    for (int d = 0; d < DTYPES_COUNT; d++) {
        struct inputs in = inputs_init(DTYPES[d], &shape);
        for (size_t i = 0; i < shape.rows * shape.cols; i++)
            in.x[i] = 0.5;
        struct result found = norm_on_device(DTYPES[d], &shape, &in, false);
        for (size_t row = 0; row < shape.rows; row++)
            assert_memory_equal(found.array[OUT] + row * shape.cols, in.bias,
                                shape.cols * sizeof(double));
        result_deinit(&found);
        inputs_deinit(&in);
    }
}

static void types_without_kernels_are_refused(void **state)
{
    (void)state;
    static const struct norm_shape shape = {NORM_LAYER, 1, 8, 1e-5};
    assert_int_equal(cuda_norm_fwd(DTYPE_F64, &shape, &(struct cuda_norm_fwd_arrays){0}, NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(
        cuda_norm_bwd(DTYPE_F64, &shape, &(struct cuda_norm_bwd_arrays){0}, false, NULL),
        cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_matches_the_cpu),
        cmocka_unit_test(rms_norm_matches_the_cpu),
        cmocka_unit_test(heads_within_rows_are_normalized_in_place),
        cmocka_unit_test(many_rows_are_split_into_longer_chunks),
        cmocka_unit_test(a_mean_far_from_zero_keeps_the_variance_accurate),
        cmocka_unit_test(a_row_of_one_value_becomes_the_bias),
        cmocka_unit_test(types_without_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
