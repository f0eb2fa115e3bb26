/*
 * update — see update.h.
 */
#include "trainer/ops/cuda/update.h"

#include "base/numeric/exact_parts.h"
#include "base/numeric/exact_sum.h"
#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"
#include "trainer/ops/gradient_clip.h"
#include "trainer/ops/ops.h"

#include <float.h>

typedef float real;
#define real_sqrt   sqrtf
#define REAL_MIN    FLT_MIN
#define RULE_INLINE __device__ static inline
#include "trainer/ops/rules/step.inc"

enum { THREADS = 256, WARPS = THREADS / WARP_THREADS, SUM_BLOCKS_MAX = 128 };

/* A thread updates four elements, which share a decay flag. All threads take the same branches on
 * moments, and memory traffic hides their cost. */
template <enum update_rule rule, typename T>
__global__ void __launch_bounds__(THREADS)
    update(float *params, float *moment1, float *moment2, const float *gradients,
           const uint8_t *decays, T *compute, uint64_t count, struct update_factors f,
           const struct update_scalars *scalars)
{
    constexpr int width = packed<float>::count;
    static_assert(OPS_DECAY_ELEMENTS % width == 0, "one decay flag per thread");
    uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * width;
    if (first >= count || scalars->is_skipped)
        return;
    update_factors_set(&f, scalars);
    float decay = decays[first / OPS_DECAY_ELEMENTS] ? f.weight_decay : 0.0f;
    if (first + width <= count) {
        packed<float> w = load_packed(params + first), g = load_packed(gradients + first), m = {},
                      v = {};
        if (moment1)
            m = load_packed(moment1 + first);
        if (moment2)
            v = load_packed(moment2 + first);
        for (int i = 0; i < width; i++)
            w.element[i] = update_step(rule, &f, w.element[i], update_gradient(&f, g.element[i]),
                                       decay, &m.element[i], &v.element[i]);
        store_packed(params + first, w);
        if (moment1)
            store_packed(moment1 + first, m);
        if (moment2)
            store_packed(moment2 + first, v);
        packed<T, width> rounded;
        for (int i = 0; i < width; i++)
            rounded.element[i] = from_float<T>(w.element[i]);
        if (compute)
            store_packed(compute + first, rounded);
        return;
    }
    for (uint64_t i = first; i < count; i++) {
        float m = moment1 ? moment1[i] : 0.0f, v = moment2 ? moment2[i] : 0.0f;
        params[i] =
            update_step(rule, &f, params[i], update_gradient(&f, gradients[i]), decay, &m, &v);
        if (moment1)
            moment1[i] = m;
        if (moment2)
            moment2[i] = v;
        if (compute)
            compute[i] = from_float<T>(params[i]);
    }
}

template <enum update_rule rule>
static cudaError_t launch_update(const struct update_options *options,
                                 const struct update_arrays *a, enum dtype compute_type,
                                 const struct update_scalars *scalars, cudaStream_t stream)
{
    unsigned moments = update_moment_count(rule, options);
    return dispatch_type(compute_type, [&](auto t) {
        using T = decltype(t);
        return LAUNCH((update<rule, T>),
                      block_count(a->count, (uint64_t)THREADS * packed<float>::count), THREADS, 0,
                      stream, (float *)a->params, moments > 0 ? (float *)a->moment1 : nullptr,
                      moments > 1 ? (float *)a->moment2 : nullptr, (const float *)a->gradients,
                      a->decays, (T *)a->compute, a->count, update_factors_of(options), scalars);
    });
}

cudaError_t cuda_update(enum update_rule rule, const struct update_options *options,
                        const struct update_arrays *arrays, enum dtype compute_type,
                        const struct update_scalars *scalars, cudaStream_t stream)
{
    switch (rule) {
#define ROW(name, NAME, ...)                                                                       \
    case UPDATE_##NAME:                                                                            \
        return launch_update<UPDATE_##NAME>(options, arrays, compute_type, scalars, stream);
        UPDATE_RULES(ROW)
#undef ROW
    }
    return cudaErrorInvalidValue;
}

__global__ void __launch_bounds__(WARP_THREADS)
    clip_gradients(struct gradient_clip *clip, const int64_t *losses, const int64_t *squares,
                   struct gradient_clip_input input)
{
    if (threadIdx.x == 0)
        gradient_clip_compute(clip, losses, squares, &input);
}

cudaError_t cuda_clip_gradients(struct gradient_clip *clip, const int64_t *losses,
                                const int64_t *squares, const struct gradient_clip_input *input,
                                cudaStream_t stream)
{
    return LAUNCH(clip_gradients, 1, WARP_THREADS, 0, stream, clip, losses, squares, *input);
}

/* One warp per row; a lane moves N elements at a time. */
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

/* One thread per row, for biases and norm weights, whose rows have one element. */
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

cudaError_t cuda_row_sumsq(double *sums, const float *x, uint64_t rows, uint64_t cols,
                           cudaStream_t stream)
{
    if (cols < WARP_THREADS)
        return LAUNCH(row_sumsq_narrow, block_count(rows, THREADS), THREADS, 0, stream, sums, x,
                      rows, cols);
    return dispatch_width<float>(cols, [&](auto n) {
        return LAUNCH((row_sumsq_wide<n()>), block_count(rows, WARPS), THREADS, 0, stream, sums, x,
                      rows, cols);
    });
}

__device__ static void add_integer(int64_t *word, int64_t value)
{
    if (value != 0) /* two's complement: unsigned addition gives the same bits */
        atomicAdd((unsigned long long *)word, (unsigned long long)value);
}

/* Each block sums its terms, then adds its integer words to the total; their order does not matter.
 * Terms of similar magnitude would contend for the same words, so a warp first sums terms that all
 * share their words. */
__global__ void __launch_bounds__(THREADS)
    add_to_exact_sum(int64_t *words, const double *terms, uint64_t count)
{
    __shared__ int64_t block_words[EXACT_SUM_WORDS];
    for (int i = threadIdx.x; i < EXACT_SUM_WORDS; i += THREADS)
        block_words[i] = 0;
    __syncthreads();
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t first = (uint64_t)blockIdx.x * THREADS; first < count; first += step) {
        uint64_t i = first + threadIdx.x;
        double term = i < count ? terms[i] : 0.0;
        struct exact_parts parts = exact_parts_split(term);
        uint32_t digit = __shfl_sync(FULL_MASK, parts.digit, 0);
        bool shares_words =
            __all_sync(FULL_MASK, parts.is_finite && (parts.digit == digit || term == 0));
        if (!parts.is_finite)
            add_integer(&block_words[EXACT_SUM_NONFINITE], 1);
        for (int j = 0; j < EXACT_PARTS; j++) {
            if (shares_words) {
                int64_t sum = warp_sum(parts.part[j]);
                if (threadIdx.x % WARP_THREADS == 0)
                    add_integer(&block_words[digit + j], sum);
            } else if (parts.is_finite) {
                add_integer(&block_words[parts.digit + j], parts.part[j]);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < EXACT_SUM_WORDS; i += THREADS)
        add_integer(&words[i], block_words[i]);
}

static uint32_t sum_block_count(uint64_t count)
{
    uint32_t blocks = block_count(count, THREADS);
    return blocks < (uint32_t)SUM_BLOCKS_MAX ? blocks : (uint32_t)SUM_BLOCKS_MAX;
}

cudaError_t cuda_add_to_exact_sum(int64_t *words, const double *terms, uint64_t count,
                                  cudaStream_t stream)
{
    return LAUNCH(add_to_exact_sum, sum_block_count(count), THREADS, 0, stream, words, terms,
                  count);
}

__global__ void __launch_bounds__(THREADS)
    add_flag_count(int64_t *word, const uint8_t *flags, uint64_t count)
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

cudaError_t cuda_add_flag_count(int64_t *word, const uint8_t *flags, uint64_t count,
                                cudaStream_t stream)
{
    return LAUNCH(add_flag_count, sum_block_count(count), THREADS, 0, stream, word, flags, count);
}
