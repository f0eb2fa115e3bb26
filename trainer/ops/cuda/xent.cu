/*
 * xent — see xent.h.
 */
#include "trainer/ops/cuda/xent.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"
#include "trainer/ops/ops.h"

#include <float.h>
#include <math.h>

/* Threads per row, depending on the number of classes. */
enum {
    MANY_CLASSES = 4096,
    MANY_THREADS = 512,
    MANY_BLOCKS = 3, /* per multiprocessor: while one waits at a barrier, the others read */
    SOME_CLASSES = 512,
    SOME_THREADS = 256,
    FEW_THREADS = WARP_THREADS, /* several rows per block of SOME_THREADS */
};

/* Columns plus one step of a block must fit in 32 bits. */
static const uint64_t STRIDE_MAX = UINT64_C(1) << 30;

/* Rarely needed arithmetic, here and below, is behind a branch: exponentials keep the arithmetic
 * units busy. */
template <int N>
__device__ static void fill_padding(float (&x)[N], int col, int classes, float value)
{
    if (col + N <= classes)
        return;
    for (int i = 0; i < N; i++)
        x[i] = col + i < classes ? x[i] : value;
}

template <typename T, int N> __device__ static void load_floats(float (&x)[N], const T *from)
{
    packed<T, N> p = load_packed<T, N>(from);
    for (int i = 0; i < N; i++)
        x[i] = to_float(p.element[i]);
}

/* The first class has this weight; the second has 1 - weight. */
struct row_target {
    int first, second;
    float first_weight;
};

struct softmax {
    float max;
    double sum; /* of e^(logit - max) */
    /* an equal logit precedes the target; undefined if a larger one exists */
    bool has_earlier_tie;
};

/* N: elements moved at a time. GROUP: threads per row. The maximum starts finite, so that
 * differences from it are defined. */
template <typename T, int N, int GROUP>
__device__ static struct softmax softmax_part(const T *x, int classes, int target,
                                              float target_logit)
{
    struct softmax part = {-FLT_MAX, 0, false};
    for (int col = threadIdx.x % GROUP * N; col < classes; col += GROUP * N) {
        float logits[N], max = part.max, sum = 0;
        load_floats(logits, x + col);
        fill_padding(logits, col, classes, -INFINITY);
        for (int i = 0; i < N; i++)
            max = fmaxf(max, logits[i]);
        if (max > part.max) {
            part.sum *= (double)expf(part.max - max);
            part.max = max;
        }
        for (int i = 0; i < N; i++)
            sum += expf(logits[i] - max);
        part.sum += (double)sum;
        if (max == target_logit) {
            for (int i = 0; i < N; i++)
                part.has_earlier_tie |= logits[i] == target_logit && col + i < target;
        }
    }
    return part;
}

template <int N> __device__ static void subtract_at(float (&x)[N], int col, int target, float value)
{
    if (target < col || target >= col + N)
        return;
    for (int i = 0; i < N; i++)
        x[i] -= col + i == target ? value : 0.0f;
}

/* Iterates backwards: the columns read last are in the nearest cache. Writes zeros if the first
 * target is negative. */
template <typename T, int N, int GROUP, bool TWO_TARGETS>
__device__ static void write_gradient(T *x, struct xent_shape shape,
                                      const struct row_target &target, const struct softmax &row,
                                      double gradient_scale)
{
    int first = threadIdx.x % GROUP * N;
    float factor = (float)(gradient_scale / row.sum);
    float scale = (float)(gradient_scale * (TWO_TARGETS ? (double)target.first_weight : 1.0));
    float second_scale =
        TWO_TARGETS ? (float)(gradient_scale * (1.0 - (double)target.first_weight)) : 0.0f;
    int steps = ((int)shape.stride - first + GROUP * N - 1) / (GROUP * N);
    for (int step = steps - 1; step >= 0; step--) {
        int col = first + step * GROUP * N;
        float gradient[N];
        load_floats(gradient, x + col);
        for (int i = 0; i < N; i++)
            gradient[i] = expf(gradient[i] - row.max) * factor;
        subtract_at(gradient, col, target.first, scale);
        if (TWO_TARGETS)
            subtract_at(gradient, col, target.second, second_scale);
        fill_padding(gradient, col, target.first < 0 ? 0 : (int)shape.classes, 0.0f);
        packed<T, N> p;
        for (int i = 0; i < N; i++)
            p.element[i] = from_float<T>(gradient[i]);
        store_packed(x + col, p);
    }
}

template <bool TWO_TARGETS>
__device__ static struct row_target target_of(const struct cuda_xent_arrays &arrays,
                                              const struct xent_shape &shape, uint64_t row)
{
    uint64_t at = row / shape.tokens * shape.target_stride + row % shape.tokens;
    int first = arrays.targets[at];
    if constexpr (TWO_TARGETS)
        return {first, arrays.second_targets[at], arrays.weights[at]};
    return {first, first, 1.0f};
}

template <typename T, int N, int GROUP, bool TWO_TARGETS>
__global__ void __launch_bounds__(GROUP < SOME_THREADS ? SOME_THREADS : GROUP,
                                  GROUP == MANY_THREADS ? MANY_BLOCKS : 1)
    xent_rows(struct cuda_xent_arrays arrays, struct xent_shape shape)
{
    __shared__ float maxima[WARPS_MAX];
    __shared__ double sums[WARPS_MAX];
    uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / GROUP) + threadIdx.x / GROUP;
    bool is_row = row < shape.items * shape.tokens;
    int classes = (int)shape.classes;
    struct row_target target = {-1, -1, 1.0f};
    if (is_row)
        target = target_of<TWO_TARGETS>(arrays, shape, row);
    bool is_class = target.first >= 0 && target.first < classes;
    if (TWO_TARGETS)
        is_class = is_class && target.second >= 0 && target.second < classes;
    T *x = (T *)arrays.logits + row * shape.stride;
    float target_logit = is_class ? to_float(x[target.first]) : 0.0f;
    float second_logit = TWO_TARGETS && is_class ? to_float(x[target.second]) : target_logit;
    bool is_second_main = TWO_TARGETS && target.first_weight < 0.5f;
    int main_target = is_second_main ? target.second : target.first;
    float main_logit = is_second_main ? second_logit : target_logit;

    struct softmax part = softmax_part<T, N, GROUP>(x, is_class ? classes : 0, main_target,
                                                    main_logit),
                   total;
    if constexpr (GROUP == WARP_THREADS) {
        total.max = warp_max(part.max);
        total.sum = warp_sum(part.sum * (double)expf(part.max - total.max));
        total.has_earlier_tie = __any_sync(FULL_MASK, part.has_earlier_tie);
        __syncwarp(); /* all lanes must read the target's logit before it is overwritten */
    } else {
        total.max = block_max(part.max, maxima);
        total.sum = block_sum(part.sum * (double)expf(part.max - total.max), sums);
        total.has_earlier_tie = __syncthreads_or(part.has_earlier_tie);
    }
    if (is_row && threadIdx.x % GROUP == 0) {
        double loss = target.first < 0 ? 0.0 : (double)NAN,
               logit = (double)target_logit - (double)total.max;
        if (TWO_TARGETS && target.first_weight < 1.0f)
            logit =
                (double)target.first_weight * logit +
                (1.0 - (double)target.first_weight) * ((double)second_logit - (double)total.max);
        if (is_class)
            loss = log(total.sum) - logit;
        arrays.losses[row] = loss;
        arrays.correct[row] = is_class && main_logit == total.max && !total.has_earlier_tie;
    }
    target.first = is_class ? target.first : -1;
    if (is_row && arrays.gradient_scale)
        write_gradient<T, N, GROUP, TWO_TARGETS>(x, shape, target, total, *arrays.gradient_scale);
}

template <typename T, int N, int GROUP, bool TWO_TARGETS>
static cudaError_t launch_rows(const struct xent_shape *s, const struct cuda_xent_arrays *arrays,
                               cudaStream_t stream)
{
    constexpr int threads = GROUP < SOME_THREADS ? SOME_THREADS : GROUP;
    return LAUNCH((xent_rows<T, N, GROUP, TWO_TARGETS>),
                  block_count(s->items * s->tokens, threads / GROUP), threads, 0, stream, *arrays,
                  *s);
}

template <typename T, int N, bool TWO_TARGETS>
static cudaError_t launch_groups(const struct xent_shape *s, const struct cuda_xent_arrays *arrays,
                                 cudaStream_t stream)
{
    if (s->classes >= MANY_CLASSES)
        return launch_rows<T, N, MANY_THREADS, TWO_TARGETS>(s, arrays, stream);
    if (s->classes >= SOME_CLASSES)
        return launch_rows<T, N, SOME_THREADS, TWO_TARGETS>(s, arrays, stream);
    return launch_rows<T, N, FEW_THREADS, TWO_TARGETS>(s, arrays, stream);
}

cudaError_t cuda_xent(enum dtype type, const struct xent_shape *shape,
                      const struct cuda_xent_arrays *arrays, cudaStream_t stream)
{
    if (shape->stride < shape->classes || shape->stride > STRIDE_MAX)
        return cudaErrorInvalidValue;
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(shape->stride, [&](auto n) {
            return arrays->second_targets ? launch_groups<T, n(), true>(shape, arrays, stream)
                                          : launch_groups<T, n(), false>(shape, arrays, stream);
        });
    });
}
