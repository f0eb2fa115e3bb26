/*
 * rope — tests rotary position embeddings on the device against the CPU ops in double.
 */
#include "trainer/ops/cuda/rope.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"
#include "trainer/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
/* Half a unit in the last place of numbers below 4, plus the error of float angles. */
static const double TOLERANCES[] = {1e-6, 0x1p-7, 0x1p-10};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

static const struct rope_spec PLAIN = {.base = 10000},
                              SCALED = {.base = 10000,
                                        .scaling = {.factor = 8,
                                                    .low_freq_factor = 1,
                                                    .high_freq_factor = 4,
                                                    .original_positions = 64}};

static size_t count_of(const struct attn_shape *shape)
{
    return shape->batch * shape->tokens * (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
}

static double *rotate_on_cpu(const struct attn_shape *shape, const struct rope_spec *spec,
                             const double *qkv, bool backward)
{
    size_t count = count_of(shape);
    double *turned = malloc(count * sizeof *turned);
    assert_non_null(turned);
    memcpy(turned, qkv, count * sizeof *turned);
    struct ops *ops;
    struct err err;
    assert_ok(ops_cpu_open(NULL, DTYPE_F64, 1, &ops, &err), &err);
    ops->table->rope(ops, shape, turned, spec, backward);
    assert_ok(ops->table->sync(ops, &err), &err);
    ops_close(ops);
    return turned;
}

/* The table has more tokens than the shape, as if it were shared with another shape. */
static double *rotate_on_device(enum dtype dtype, const struct attn_shape *shape,
                                const struct rope_spec *spec, const double *qkv, bool backward)
{
    uint64_t tokens = shape->tokens + 3;
    void *array = cuda_case_array(dtype, qkv, count_of(shape));
    float *table = cuda_case_blank(DTYPE_F32, cuda_rope_table_floats(tokens, shape->head_dim));
    cuda_ok(cuda_rope_table_fill(table, tokens, shape->head_dim, spec, NULL));
    cuda_ok(cuda_rope_rotate(dtype, shape, array, table, backward, NULL));
    double *turned = cuda_case_read(dtype, array, count_of(shape));
    free(cuda_case_read(DTYPE_F32, table, cuda_rope_table_floats(tokens, shape->head_dim)));
    cuda_case_free(array);
    cuda_case_free(table);
    return turned;
}

static void check_rotation(int dtype, const struct attn_shape *shape, const struct rope_spec *spec,
                           bool backward)
{
    size_t count = count_of(shape);
    double *qkv = cuda_case_values(DTYPES[dtype], 1, count, 2),
           *expected = rotate_on_cpu(shape, spec, qkv, backward);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        double *found = rotate_on_device(DTYPES[dtype], shape, spec, qkv, backward);
        double distance = cuda_case_max_error(found, expected, count);
        if (!(distance <= TOLERANCES[dtype]))
            fail_msg("%s, head dimension %d: off by %g", dtype_name(DTYPES[dtype]),
                     (int)shape->head_dim, distance);
        free(found);
    }
    order_set(0);
    free(qkv), free(expected);
}

static void queries_and_keys_are_rotated_as_on_the_cpu(void **state)
{
    (void)state;
    static const struct attn_shape shapes[] = {{1, 1, 1, 1, 2, true},   {2, 37, 3, 1, 10, true},
                                               {1, 5, 4, 4, 16, true},  {2, 19, 4, 2, 64, true},
                                               {1, 3, 2, 2, 128, true}, {1, 70, 9, 3, 8, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
            check_rotation(dtype, &shapes[i], &PLAIN, false);
            check_rotation(dtype, &shapes[i], &PLAIN, true);
            check_rotation(dtype, &shapes[i], &SCALED, false);
        }
}

/* Angles of thousands of radians are reduced in double, so they are equally accurate. */
static void distant_positions_are_rotated_accurately(void **state)
{
    (void)state;
    check_rotation(0, &(struct attn_shape){1, 9000, 1, 1, 4, true}, &PLAIN, false);
}

static void values_are_not_rotated(void **state)
{
    (void)state;
    static const struct attn_shape shape = {2, 7, 3, 1, 16, true};
    size_t row = (shape.heads + 2 * shape.kv_heads) * shape.head_dim,
           v_at = row - shape.kv_heads * shape.head_dim;
    for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
        double *qkv = cuda_case_values(DTYPES[dtype], 1, count_of(&shape), 2);
        double *turned = rotate_on_device(DTYPES[dtype], &shape, &PLAIN, qkv, false);
        for (size_t i = 0; i < shape.batch * shape.tokens; i++)
            assert_memory_equal(qkv + i * row + v_at, turned + i * row + v_at,
                                (row - v_at) * sizeof *qkv);
        free(qkv), free(turned);
    }
}

static void odd_heads_are_refused(void **state)
{
    (void)state;
    static const struct attn_shape odd = {1, 4, 1, 1, 7, true};
    assert_int_equal(cuda_rope_table_fill(NULL, 4, 7, &PLAIN, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_rope_rotate(DTYPE_F32, &odd, NULL, NULL, false, NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(cuda_rope_rotate(DTYPE_F64, &(struct attn_shape){1, 4, 1, 1, 8, true}, NULL,
                                      NULL, false, NULL),
                     cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_and_keys_are_rotated_as_on_the_cpu),
        cmocka_unit_test(distant_positions_are_rotated_accurately),
        cmocka_unit_test(values_are_not_rotated),
        cmocka_unit_test(odd_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
