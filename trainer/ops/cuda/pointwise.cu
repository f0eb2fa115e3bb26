/*
 * pointwise — see pointwise.h. A thread handles 16 bytes of each array, or one element if rows are
 * not aligned.
 *
 * GELU's tanh form equals x / (1 + e^(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3).
 */
#include "trainer/ops/cuda/pointwise.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"

enum { THREADS = 256 };

__device__ static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

struct gelu {
    __device__ float operator()(float x, float) const
    {
        const float scale = 0.79788456080286536f, cubic = 0.044715f;
        return x * sigmoid(2 * scale * (x + cubic * x * x * x));
    }
};

struct gelu_gradient {
    __device__ float operator()(float d_out, float x) const
    {
        const float scale = 0.79788456080286536f, cubic = 0.044715f;
        float square = x * x, s = sigmoid(2 * scale * (x + cubic * square * x));
        float slope = 2 * scale * (1.0f + 3 * cubic * square);
        /* s * (1 - s) is 0 where the last factor is large; that factor is finite for |x| < 10^12 */
        return d_out * (s + s * (1 - s) * (x * slope));
    }
};

struct sum {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

struct identity {
    __device__ float operator()(float x, float) const
    {
        return x;
    }
};

struct multiply {
    float scale;

    __device__ float operator()(float x, float) const
    {
        return x * scale;
    }
};

/* Elements per thread: 16 bytes of the wider type. */
template <typename T, typename A>
static constexpr int width_of =
    packed<T>::count < packed<A>::count ? packed<T>::count : packed<A>::count;

/* out[i] = f(a[i], b[i]); b may be a. */
template <typename T, typename A, typename F>
__global__ void __launch_bounds__(THREADS) map(T *out, const A *a, const A *b, uint64_t count, F f)
{
    constexpr int width = width_of<T, A>;
    uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * width;
    if (first + width <= count) {
        packed<A, width> x = load_packed<A, width>(a + first), y = load_packed<A, width>(b + first);
        packed<T, width> result;
        for (int i = 0; i < width; i++)
            result.element[i] = from_float<T>(f(to_float(x.element[i]), to_float(y.element[i])));
        store_packed(out + first, result);
        return;
    }
    for (uint64_t i = first; i < first + width && i < count; i++)
        out[i] = from_float<T>(f(to_float(a[i]), to_float(b[i])));
}

template <typename T, typename A, typename F>
static cudaError_t launch_map(T *out, const A *a, const A *b, uint64_t count, F f,
                              cudaStream_t stream)
{
    return LAUNCH((map<T, A, F>), block_count(count, (uint64_t)THREADS * width_of<T, A>), THREADS,
                  0, stream, out, a, b, count, f);
}

template <typename F>
static cudaError_t map_type(enum dtype type, void *out, const void *a, const void *b,
                            uint64_t count, F f, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return launch_map((T *)out, (const T *)a, (const T *)b, count, f, stream);
    });
}

cudaError_t cuda_gelu_fwd(enum dtype type, void *out, const void *x, uint64_t count,
                          cudaStream_t stream)
{
    return map_type(type, out, x, x, count, gelu(), stream);
}

cudaError_t cuda_gelu_bwd(enum dtype type, void *d_x, const void *d_out, const void *x,
                          uint64_t count, cudaStream_t stream)
{
    return map_type(type, d_x, d_out, x, count, gelu_gradient(), stream);
}

cudaError_t cuda_add(enum dtype type, void *out, const void *a, const void *b, uint64_t count,
                     cudaStream_t stream)
{
    return map_type(type, out, a, b, count, sum(), stream);
}

cudaError_t cuda_from_f32(enum dtype type, void *out, const float *x, uint64_t count,
                          cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return launch_map((T *)out, x, x, count, identity(), stream);
    });
}

cudaError_t cuda_narrow(enum dtype type, void *out, const float *x, float scale, uint64_t count,
                        cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return launch_map((T *)out, x, x, count, multiply{scale}, stream);
    });
}

cudaError_t cuda_widen(enum dtype type, float *out, const void *x, float scale, uint64_t count,
                       cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return launch_map(out, (const T *)x, (const T *)x, count, multiply{scale}, stream);
    });
}

/* gate_up is [rows, 2 * cols]: gate, then up. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    swiglu_fwd(T *out, const T *gate_up, uint64_t rows, uint64_t cols)
{
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= rows * cols)
        return;
    const T *gate = gate_up + i / cols * 2 * cols + i % cols;
    packed<T, N> g = load_packed<T, N>(gate), u = load_packed<T, N>(gate + cols), result;
    for (int j = 0; j < N; j++) {
        float x = to_float(g.element[j]);
        result.element[j] = from_float<T>(x * sigmoid(x) * to_float(u.element[j]));
    }
    store_packed(out + i, result);
}

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    swiglu_bwd(T *d_gate_up, const T *d_out, const T *gate_up, uint64_t rows, uint64_t cols)
{
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= rows * cols)
        return;
    uint64_t at = i / cols * 2 * cols + i % cols;
    packed<T, N> g = load_packed<T, N>(gate_up + at), u = load_packed<T, N>(gate_up + at + cols);
    packed<T, N> d = load_packed<T, N>(d_out + i), d_g, d_u;
    for (int j = 0; j < N; j++) {
        float x = to_float(g.element[j]), s = sigmoid(x), d_j = to_float(d.element[j]);
        d_g.element[j] = from_float<T>(d_j * to_float(u.element[j]) * (s + x * s * (1 - s)));
        d_u.element[j] = from_float<T>(d_j * (x * s));
    }
    store_packed(d_gate_up + at, d_g);
    store_packed(d_gate_up + at + cols, d_u);
}

cudaError_t cuda_swiglu_fwd(enum dtype type, void *out, const void *gate_up, uint64_t rows,
                            uint64_t cols, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(cols, [&](auto n) {
            return LAUNCH((swiglu_fwd<T, n()>), block_count(rows * cols, THREADS * n()), THREADS, 0,
                          stream, (T *)out, (const T *)gate_up, rows, cols);
        });
    });
}

cudaError_t cuda_swiglu_bwd(enum dtype type, void *d_gate_up, const void *d_out,
                            const void *gate_up, uint64_t rows, uint64_t cols, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(cols, [&](auto n) {
            return LAUNCH((swiglu_bwd<T, n()>), block_count(rows * cols, THREADS * n()), THREADS, 0,
                          stream, (T *)d_gate_up, (const T *)d_out, (const T *)gate_up, rows, cols);
        });
    });
}
