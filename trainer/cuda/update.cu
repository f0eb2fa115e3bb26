/*
 * update — see update.h.
 */
#include "trainer/cuda/update.h"

#include "base/exact_parts.h"
#include "base/exact_sum.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/element.h"
#include "trainer/cuda/launch.h"
#include "trainer/cuda/reduce.h"
#include "trainer/decision.h"
#include "trainer/ops.h"

#include <float.h>

enum { THREADS = 256, WARPS = THREADS / WARP_THREADS, SUM_BLOCKS_MAX = 128 };

/* The options in the type that they are used in. */
struct adamw_constants {
    float beta1, beta2, rest1, rest2, epsilon, decay;
};

/* And the scalars. */
struct adamw_factors {
    float lr, correction1, correction2, gradient_scale;
};

__device__ static struct adamw_factors factors_of(const struct adamw_scalars &s)
{
    return {(float)s.lr, (float)s.correction1, (float)s.correction2, (float)s.gradient_scale};
}

/* A moment that fades out ends at 0, as on the cpu. */
__device__ static float without_subnormals(float x)
{
    return fabsf(x) < FLT_MIN ? 0.0f : x;
}

__device__ static float adamw_element(const struct adamw_constants &c, const struct adamw_factors &f, float w,
                                      float gradient, float decay, float *m, float *v)
{
    float g = gradient * f.gradient_scale;
    *m = without_subnormals(c.beta1 * *m + c.rest1 * g);
    *v = without_subnormals(c.beta2 * *v + c.rest2 * g * g);
    float step = *m * f.correction1 / (sqrtf(*v * f.correction2) + c.epsilon);
    return w - f.lr * (step + decay * w);
}

/* A thread takes four elements, which share their decision about decay. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    adamw(float *params, float *moment1, float *moment2, const float *gradients, const uint8_t *decays,
          T *compute, uint64_t count, struct adamw_constants c, const struct adamw_scalars *scalars)
{
    constexpr int width = packed<float>::count;
    static_assert(OPS_DECAY_ELEMENTS % width == 0, "one decision a thread");
    uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * width;
    if (first >= count || scalars->is_skipped)
        return;
    struct adamw_factors f = factors_of(*scalars);
    float decay = decays[first / OPS_DECAY_ELEMENTS] ? c.decay : 0.0f;
    if (first + width <= count) {
        packed<float> w = load_packed(params + first), m = load_packed(moment1 + first);
        packed<float> v = load_packed(moment2 + first), g = load_packed(gradients + first);
        for (int i = 0; i < width; i++)
            w.element[i] =
                adamw_element(c, f, w.element[i], g.element[i], decay, &m.element[i], &v.element[i]);
        store_packed(params + first, w);
        store_packed(moment1 + first, m);
        store_packed(moment2 + first, v);
        packed<T, width> rounded;
        for (int i = 0; i < width; i++)
            rounded.element[i] = from_float<T>(w.element[i]);
        if (compute)
            store_packed(compute + first, rounded);
        return;
    }
    for (uint64_t i = first; i < count; i++) {
        params[i] = adamw_element(c, f, params[i], gradients[i], decay, &moment1[i], &moment2[i]);
        if (compute)
            compute[i] = from_float<T>(params[i]);
    }
}

cudaError_t cuda_adamw(const struct cuda_adamw_arrays *u, const struct adamw_options *options,
                       cudaStream_t stream)
{
    const struct adamw_constants constants = {(float)options->beta1,       (float)options->beta2,
                                              (float)(1 - options->beta1), (float)(1 - options->beta2),
                                              (float)options->epsilon,     (float)options->decay};
    return dispatch_type(u->compute_type, [&](auto t) {
        using T = decltype(t);
        return LAUNCH((adamw<T>), blocks_of(u->count, (uint64_t)THREADS * packed<float>::count), THREADS, 0,
                      stream, u->params, u->moment1, u->moment2, u->gradients, u->decays, (T *)u->compute,
                      u->count, constants, u->scalars);
    });
}

/* One thread's work; a block is a warp. */
__global__ void __launch_bounds__(WARP_THREADS)
    decide(struct decision *decision, const int64_t *losses, const int64_t *squares,
           struct decision_request request)
{
    if (threadIdx.x == 0)
        decision_make(decision, losses, squares, &request);
}

cudaError_t cuda_decide(struct decision *decision, const int64_t *losses, const int64_t *squares,
                        const struct decision_request *request, cudaStream_t stream)
{
    return LAUNCH(decide, 1, WARP_THREADS, 0, stream, decision, losses, squares, *request);
}

/* A warp a row; a lane moves N elements at once. */
template <int N>
__global__ void __launch_bounds__(THREADS)
    row_sumsq_wide(double *sums, const float *x, uint64_t rows, uint64_t cols)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    uint64_t lane = threadIdx.x % WARP_THREADS;
    double sum = 0;
    for (uint64_t col = lane * N; row < rows && col < cols; col += WARP_THREADS * N) {
        packed<float, N> p = load_packed<float, N>(x + row * cols + col);
        for (int i = 0; i < N; i++)
            sum += (double)p.element[i] * p.element[i];
    }
    sum = warp_sum(sum);
    if (row < rows && lane == 0)
        sums[row] = sum;
}

/* A thread a row: biases and the weights of norms have rows of one element. */
__global__ void __launch_bounds__(THREADS)
    row_sumsq_narrow(double *sums, const float *x, uint64_t rows, uint64_t cols)
{
    uint64_t row = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0;
    for (uint64_t col = 0; row < rows && col < cols; col++) {
        double value = x[row * cols + col];
        sum += value * value;
    }
    if (row < rows)
        sums[row] = sum;
}

cudaError_t cuda_row_sumsq(double *sums, const float *x, uint64_t rows, uint64_t cols, cudaStream_t stream)
{
    if (cols < WARP_THREADS)
        return LAUNCH(row_sumsq_narrow, blocks_of(rows, THREADS), THREADS, 0, stream, sums, x, rows, cols);
    if (rows_are_packed<float>(cols))
        return LAUNCH((row_sumsq_wide<packed<float>::count>), blocks_of(rows, WARPS), THREADS, 0, stream,
                      sums, x, rows, cols);
    return LAUNCH((row_sumsq_wide<1>), blocks_of(rows, WARPS), THREADS, 0, stream, sums, x, rows, cols);
}

__device__ static void add_integer(int64_t *word, int64_t value)
{
    if (value != 0) /* two's complement: unsigned addition is the same */
        atomicAdd((unsigned long long *)word, (unsigned long long)value);
}

/* Each block gathers its terms, then adds its words: integers, so that the order does not matter. Terms are mostly of like size and
 * have their digits in the same words, where threads would wait for each other: a warp whose terms all have adds them up first. */
__global__ void __launch_bounds__(THREADS) exact_add(int64_t *words, const double *terms, uint64_t count)
{
    __shared__ int64_t mine[EXACT_SUM_WORDS];
    for (int i = threadIdx.x; i < EXACT_SUM_WORDS; i += THREADS)
        mine[i] = 0;
    __syncthreads();
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t first = (uint64_t)blockIdx.x * THREADS; first < count; first += step) {
        uint64_t i = first + threadIdx.x;
        double term = i < count ? terms[i] : 0.0;
        struct exact_parts parts = exact_parts_of(term);
        uint32_t digit = __shfl_sync(FULL_MASK, parts.digit, 0);
        bool alike = __all_sync(FULL_MASK, parts.is_finite && (parts.digit == digit || term == 0));
        if (!parts.is_finite)
            add_integer(&mine[EXACT_SUM_NONFINITE], 1);
        for (int j = 0; j < EXACT_PARTS; j++) {
            if (alike) {
                int64_t sum = warp_sum(parts.part[j]);
                if (threadIdx.x % WARP_THREADS == 0)
                    add_integer(&mine[digit + j], sum);
            } else if (parts.is_finite) {
                add_integer(&mine[parts.digit + j], parts.part[j]);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < EXACT_SUM_WORDS; i += THREADS)
        add_integer(&words[i], mine[i]);
}

static uint32_t sum_blocks(uint64_t count)
{
    uint32_t blocks = blocks_of(count, THREADS);
    return blocks < (uint32_t)SUM_BLOCKS_MAX ? blocks : (uint32_t)SUM_BLOCKS_MAX;
}

cudaError_t cuda_exact_add(int64_t *words, const double *terms, uint64_t count, cudaStream_t stream)
{
    return LAUNCH(exact_add, sum_blocks(count), THREADS, 0, stream, words, terms, count);
}

__global__ void __launch_bounds__(THREADS) count_add(int64_t *word, const uint8_t *flags, uint64_t count)
{
    __shared__ int64_t warps[WARPS_MAX];
    int64_t sum = 0;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        sum += flags[i];
    sum = block_sum(sum, warps);
    if (threadIdx.x == 0)
        add_integer(word, sum);
}

cudaError_t cuda_count_add(int64_t *word, const uint8_t *flags, uint64_t count, cudaStream_t stream)
{
    return LAUNCH(count_add, sum_blocks(count), THREADS, 0, stream, word, flags, count);
}
