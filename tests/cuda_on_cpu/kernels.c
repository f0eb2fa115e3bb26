/*
 * kernels — tests that the small kernels of mutants.cu, unmutated, match plain C in every order of
 * threads, blocks and streams; the same test runs on a GPU.
 */
#include "tests/cuda_on_cpu/cuda_ok.h"
#include "tests/cuda_on_cpu/mutants.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/cuda_on_cpu/product_case.h"

#include <math.h>
#include <stdlib.h>

static void *alloc_device(const void *initial, size_t bytes)
{
    void *memory = NULL;
    cuda_ok(cudaMalloc(&memory, bytes));
    if (initial)
        cuda_ok(cudaMemcpy(memory, initial, bytes, cudaMemcpyHostToDevice));
    return memory;
}

static void read_back(void *target, const void *memory, size_t bytes)
{
    cuda_ok(cudaMemcpy(target, memory, bytes, cudaMemcpyDeviceToHost));
}

enum { BLOCKS = 5, COUNT = BLOCKS * REVERSE_THREADS };

static void fill(float x[COUNT])
{
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i * 37 % 101) - 50;
}

static void barriers_synchronize_every_block(void **state)
{
    (void)state;
    float x[COUNT], out[COUNT];
    fill(x);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        float *d_x = alloc_device(x, sizeof x), *d_out = alloc_device(NULL, sizeof out);
        cuda_ok(mutants_reverse(MUTATION_NONE, d_out, d_x, BLOCKS, 3, NULL));
        read_back(out, d_out, sizeof out);
        for (int i = 0; i < COUNT; i++)
            assert_true(out[i] == x[i / REVERSE_THREADS * REVERSE_THREADS + REVERSE_THREADS - 1 -
                                    i % REVERSE_THREADS] +
                                      1);
        cuda_ok(cudaFree(d_x));
        cuda_ok(cudaFree(d_out));
    }
}

static void warp_shuffles_sum_every_block(void **state)
{
    (void)state;
    float x[COUNT], out[BLOCKS];
    fill(x);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        float *d_x = alloc_device(x, sizeof x), *d_out = alloc_device(NULL, sizeof out);
        cuda_ok(mutants_sum(MUTATION_NONE, d_out, d_x, BLOCKS, NULL));
        read_back(out, d_out, sizeof out);
        for (int b = 0; b < BLOCKS; b++) {
            float sum = 0;
            for (int i = 0; i < REVERSE_THREADS; i++)
                sum += x[b * REVERSE_THREADS + i];
            assert_true(out[b] == sum); /* integer sums are exact in any order */
        }
        cuda_ok(cudaFree(d_x));
        cuda_ok(cudaFree(d_out));
    }
}

static void tensor_core_products_match_doubles(void **state)
{
    (void)state;
    static struct product_case p;
    float out[PRODUCT_ROWS * PRODUCT_COLUMNS];
    product_case_fill(&p);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        uint16_t *d_a = alloc_device(p.a16, sizeof p.a16), *d_b = alloc_device(p.b16, sizeof p.b16);
        float *d_out = alloc_device(NULL, sizeof out);
        cuda_ok(mutants_product(MUTATION_NONE, d_out, d_a, d_b, NULL));
        read_back(out, d_out, sizeof out);
        for (int i = 0; i < PRODUCT_ROWS * PRODUCT_COLUMNS; i++) {
            double expected = product_case_expected(&p, i);
            if (!(fabs(out[i] - expected) <= 1e-5))
                fail_msg("row %d, column %d: %g, not %g", i / PRODUCT_COLUMNS, i % PRODUCT_COLUMNS,
                         (double)out[i], expected);
        }
        cuda_ok(cudaFree(d_a));
        cuda_ok(cudaFree(d_b));
        cuda_ok(cudaFree(d_out));
    }
}

static void every_thread_has_its_index(void **state)
{
    (void)state;
    enum { X = 3, Y = 5, Z = 2, THREADS = X * Y * Z * 32 };
    uint32_t out[THREADS];
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        uint32_t *d_out = alloc_device(NULL, sizeof out);
        cuda_ok(mutants_thread_indices(d_out, X, Y, Z, NULL));
        read_back(out, d_out, sizeof out);
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(out[i], i);
        cuda_ok(cudaFree(d_out));
    }
}

static void launches_that_a_gpu_refuses_are_refused(void **state)
{
    (void)state;
    order_set(0);
    assert_int_equal(mutants_empty(2048, 0, false, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(mutants_empty(0, 0, false, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(mutants_empty(32, 48 * 1024 + 16, false, NULL), cudaErrorInvalidValue);
    assert_int_equal(mutants_empty(32, 1 << 20, true, NULL), cudaErrorInvalidValue);
    cudaGetLastError();
    cuda_ok(mutants_empty(32, 96 * 1024, true, NULL));
    cuda_ok(mutants_empty(1024, 48 * 1024, false, NULL));
    cuda_ok(cudaDeviceSynchronize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_synchronize_every_block),
        cmocka_unit_test(warp_shuffles_sum_every_block),
        cmocka_unit_test(tensor_core_products_match_doubles),
        cmocka_unit_test(every_thread_has_its_index),
        cmocka_unit_test(launches_that_a_gpu_refuses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
