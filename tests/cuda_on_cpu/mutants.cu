/*
 * mutants — see mutants.h.
 */
#include "tests/cuda_on_cpu/mutants.h"

#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"
#include "trainer/ops/cuda/tensor_core.h"

template <enum mutation M> __global__ void reverse_kernel(float *out, const float *x, int rounds)
{
    DYNAMIC_SHARED(float, turned);
    int i = threadIdx.x, last = REVERSE_THREADS - 1;
    float mine = x[blockIdx.x * REVERSE_THREADS + i];
    for (int round = 0; round < rounds; round++) {
        turned[i] = mine;
        if (M == MUTATION_EARLY_RETURN && i == last)
            return;
        if (M == MUTATION_TWO_BARRIERS) {
            if (i < WARP_THREADS)
                __syncthreads();
            else
                __syncthreads();
        } else if (M != MUTATION_NO_BARRIER) {
            __syncthreads();
        }
        mine = turned[last - i + (M == MUTATION_SHARED_OVERRUN)];
        if (M != MUTATION_NO_SECOND_BARRIER)
            __syncthreads();
    }
    out[blockIdx.x * REVERSE_THREADS + i + (M == MUTATION_GLOBAL_OVERRUN)] = mine + 1;
}

template <enum mutation M> __global__ void sum_kernel(float *out, const float *x)
{
    __shared__ float warps[WARPS_MAX], lanes[REVERSE_THREADS];
    int lane = threadIdx.x % WARP_THREADS;
    float mine = x[blockIdx.x * REVERSE_THREADS + threadIdx.x];
    /* lane l passes its value to lane 31 - l */
    lanes[threadIdx.x] = mine;
    if (M != MUTATION_NO_SYNCWARP)
        __syncwarp();
    mine = lanes[threadIdx.x - lane + WARP_THREADS - 1 - lane];
    if (M == MUTATION_BAD_MASK)
        mine += 0 * __shfl_xor_sync(lane < 16 ? 0x0000ffffu : FULL_MASK, mine, 1);
    if (M == MUTATION_HALF_WARP && lane < 16)
        mine += 0 * __shfl_xor_sync(FULL_MASK, mine, 1);
    if (M == MUTATION_SAME_VALUE)
        lanes[0] = x[blockIdx.x * REVERSE_THREADS];
    float sum = block_sum(mine, warps);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

enum { PIECE = 16, STAGES = 2 };

/* Executed by one warp. Pieces of A are 16 x 16, pieces of B 16 x 8; a row of A has two chunks of
 * 16 bytes, a row of B has one. */
__device__ inline void copy_piece(__nv_bfloat16 *a_piece, __nv_bfloat16 *b_piece,
                                  const __nv_bfloat16 *a, const __nv_bfloat16 *b, int first)
{
    int lane = threadIdx.x;
    copy_async_16(a_piece + lane * 8, a + lane / 2 * PRODUCT_DEPTH + first + lane % 2 * 8, true);
    if (lane < PIECE)
        copy_async_16(b_piece + lane * 8, b + (first + lane) * PRODUCT_COLUMNS, true);
    copy_async_commit();
}

template <enum mutation M>
__global__ void product_kernel(float *out, const __nv_bfloat16 *a, const __nv_bfloat16 *b)
{
    __shared__ __align__(16) __nv_bfloat16 a_piece[STAGES][PIECE * PIECE],
        b_piece[STAGES][PIECE * 16];
    int lane = threadIdx.x;
    float c[4] = {0, 0, 0, 0};
    copy_piece(a_piece[0], b_piece[0], a, b, 0);
    for (int piece = 0; piece < PRODUCT_DEPTH / PIECE; piece++) {
        bool more = piece + 1 < PRODUCT_DEPTH / PIECE;
        if (more)
            copy_piece(a_piece[(piece + 1) % 2], b_piece[(piece + 1) % 2], a, b,
                       (piece + 1) * PIECE);
        else
            copy_async_commit();
        if (M == MUTATION_NO_COPY_WAIT)
            copy_async_wait<2>();
        else
            copy_async_wait<1>();
        if (M != MUTATION_NO_COPY_BARRIER)
            __syncthreads();
        /* matrices of A: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15; matrices of B:
         * rows 0-7 and 8-15, twice */
        uint32_t fragment_a[4], fragment_b[4];
        int row = lane % 16 + (M == MUTATION_WRONG_ROW && lane == 5 ? 1 : 0);
        load_matrices<false>(fragment_a, &a_piece[piece % 2][row * PIECE + lane / 16 * 8]);
        load_matrices<M != MUTATION_NOT_TRANSPOSED>(fragment_b, &b_piece[piece % 2][lane % 16 * 8]);
        if (M == MUTATION_SWAPPED_FRAGMENT) {
            uint32_t first = fragment_a[1];
            fragment_a[1] = fragment_a[2];
            fragment_a[2] = first;
        }
        multiply_add<__nv_bfloat16>(c, fragment_a, fragment_b);
        __syncthreads();
    }
    if (M == MUTATION_NO_COPY_WAIT)
        copy_async_wait<0>();
    if (M == MUTATION_UNAWAITED_COPY)
        copy_piece(a_piece[0], b_piece[0], a, b, 0);
    for (int r = 0; r < 4; r++)
        out[(lane / 4 + r / 2 * 8) * PRODUCT_COLUMNS + lane % 4 * 2 + r % 2] = c[r];
}

__global__ void thread_indices_kernel(uint32_t *out)
{
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    uint32_t i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    out[i] = i;
}

__global__ void double_and_add_kernel(float *x, float add, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] = x[i] * 2 + add;
}

__global__ void empty_kernel()
{
}

cudaError_t mutants_reverse(enum mutation mutation, float *out, const float *x, int blocks,
                            int rounds, cudaStream_t stream)
{
    auto call = [&](auto kernel) {
        return LAUNCH(kernel, blocks, REVERSE_THREADS, REVERSE_THREADS * sizeof(float), stream, out,
                      x, rounds);
    };
    switch (mutation) {
    case MUTATION_NO_BARRIER:
        return call(reverse_kernel<MUTATION_NO_BARRIER>);
    case MUTATION_NO_SECOND_BARRIER:
        return call(reverse_kernel<MUTATION_NO_SECOND_BARRIER>);
    case MUTATION_EARLY_RETURN:
        return call(reverse_kernel<MUTATION_EARLY_RETURN>);
    case MUTATION_TWO_BARRIERS:
        return call(reverse_kernel<MUTATION_TWO_BARRIERS>);
    case MUTATION_SHARED_OVERRUN:
        return call(reverse_kernel<MUTATION_SHARED_OVERRUN>);
    case MUTATION_GLOBAL_OVERRUN:
        return call(reverse_kernel<MUTATION_GLOBAL_OVERRUN>);
    default:
        return call(reverse_kernel<MUTATION_NONE>);
    }
}

cudaError_t mutants_sum(enum mutation mutation, float *out, const float *x, int blocks,
                        cudaStream_t stream)
{
    auto call = [&](auto kernel) {
        return LAUNCH(kernel, blocks, REVERSE_THREADS, 0, stream, out, x);
    };
    switch (mutation) {
    case MUTATION_BAD_MASK:
        return call(sum_kernel<MUTATION_BAD_MASK>);
    case MUTATION_HALF_WARP:
        return call(sum_kernel<MUTATION_HALF_WARP>);
    case MUTATION_NO_SYNCWARP:
        return call(sum_kernel<MUTATION_NO_SYNCWARP>);
    case MUTATION_SAME_VALUE:
        return call(sum_kernel<MUTATION_SAME_VALUE>);
    default:
        return call(sum_kernel<MUTATION_NONE>);
    }
}

cudaError_t mutants_product(enum mutation mutation, float *out, const uint16_t *a,
                            const uint16_t *b, cudaStream_t stream)
{
    auto call = [&](auto kernel) {
        return LAUNCH(kernel, 1, WARP_THREADS, 0, stream, out,
                      reinterpret_cast<const __nv_bfloat16 *>(a),
                      reinterpret_cast<const __nv_bfloat16 *>(b));
    };
    switch (mutation) {
    case MUTATION_NO_COPY_WAIT:
        return call(product_kernel<MUTATION_NO_COPY_WAIT>);
    case MUTATION_NO_COPY_BARRIER:
        return call(product_kernel<MUTATION_NO_COPY_BARRIER>);
    case MUTATION_UNAWAITED_COPY:
        return call(product_kernel<MUTATION_UNAWAITED_COPY>);
    case MUTATION_SWAPPED_FRAGMENT:
        return call(product_kernel<MUTATION_SWAPPED_FRAGMENT>);
    case MUTATION_WRONG_ROW:
        return call(product_kernel<MUTATION_WRONG_ROW>);
    case MUTATION_NOT_TRANSPOSED:
        return call(product_kernel<MUTATION_NOT_TRANSPOSED>);
    default:
        return call(product_kernel<MUTATION_NONE>);
    }
}

cudaError_t mutants_thread_indices(uint32_t *out, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                                   cudaStream_t stream)
{
    return LAUNCH(thread_indices_kernel, dim3(grid_x, grid_y, grid_z), dim3(4, 4, 2), 0, stream,
                  out);
}

cudaError_t mutants_double_and_add(float *x, float add, int count, cudaStream_t stream)
{
    return LAUNCH(double_and_add_kernel, (count + 63) / 64, 64, 0, stream, x, add, count);
}

cudaError_t mutants_empty(int threads, int shared_bytes, bool allow, cudaStream_t stream)
{
    if (allow) {
        cudaError_t status = LAUNCH_ALLOW_SHARED(empty_kernel, shared_bytes);
        if (status != cudaSuccess)
            return status;
    }
    return LAUNCH(empty_kernel, 1, threads, shared_bytes, stream);
}
