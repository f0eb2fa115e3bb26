/*
 * mutants — kernels that use every feature of the shim, each in a correct version and with typical
 * bugs.
 *
 * The launchers take pointers to device memory and return what LAUNCH returns.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_MUTANTS_H
#define MILLRACE_TESTS_CUDA_ON_CPU_MUTANTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mutation {
    MUTATION_NONE,
    /* in mutants_reverse */
    MUTATION_NO_BARRIER,
    MUTATION_NO_SECOND_BARRIER, /* the barrier before the buffer is reused is missing */
    MUTATION_EARLY_RETURN,
    MUTATION_TWO_BARRIERS, /* each branch has its own barrier */
    MUTATION_SHARED_OVERRUN,
    MUTATION_GLOBAL_OVERRUN,
    /* in mutants_sum */
    MUTATION_BAD_MASK,
    MUTATION_HALF_WARP, /* only some lanes of a full mask arrive */
    MUTATION_NO_SYNCWARP,
    MUTATION_SAME_VALUE, /* several threads race to write the same value; for ThreadSanitizer */
    /* in mutants_product */
    MUTATION_NO_COPY_WAIT,
    MUTATION_NO_COPY_BARRIER,
    MUTATION_UNAWAITED_COPY,
    MUTATION_SWAPPED_FRAGMENT,
    MUTATION_WRONG_ROW,
    MUTATION_NOT_TRANSPOSED,
};

enum { REVERSE_THREADS = 128, PRODUCT_ROWS = 16, PRODUCT_COLUMNS = 8, PRODUCT_DEPTH = 64 };

/* out[b][i] = x[b][127 - i] + 1 for `blocks` blocks of 128 elements, reversed in shared memory
 * `rounds` times (odd). */
cudaError_t mutants_reverse(enum mutation mutation, float *out, const float *x, int blocks,
                            int rounds, cudaStream_t stream);

/* out[b] = the sum of x[b][0..127], computed by shuffles and shared memory. */
cudaError_t mutants_sum(enum mutation mutation, float *out, const float *x, int blocks,
                        cudaStream_t stream);

/* out[16][8] = A[16][64] B[64][8] of bfloat16, row-major, with pieces of 16 columns prefetched. */
cudaError_t mutants_product(enum mutation mutation, float *out, const uint16_t *a,
                            const uint16_t *b, cudaStream_t stream);

/* out[i] = i, where i is the thread's linear index in a three-dimensional grid of 4 x 4 x 2
 * blocks. */
cudaError_t mutants_thread_indices(uint32_t *out, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                                   cudaStream_t stream);

/* x[i] = x[i] * 2 + add for `count` numbers; the result depends on the order of these steps. */
cudaError_t mutants_double_and_add(float *x, float add, int count, cudaStream_t stream);

/* An empty kernel with this many threads and shared bytes per block. allow: calls
 * LAUNCH_ALLOW_SHARED first. */
cudaError_t mutants_empty(int threads, int shared_bytes, bool allow, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
