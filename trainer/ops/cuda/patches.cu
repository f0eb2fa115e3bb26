/*
 * patches — see patches.h. A warp handles a row of patches; a lane writes 16 bytes at a time.
 */
#include "trainer/ops/cuda/patches.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

enum { THREADS = 256, WARPS = THREADS / WARP_THREADS, COLORS = 3 };

struct color {
    float mean, deviation, reciprocal_deviation;
};

struct patch_layout {
    uint64_t patches; /* of all images */
    uint32_t patches_per_row;
    uint32_t line, patch; /* line: values in a row of a patch; patch: rows of a patch */
    struct color colors[COLORS];
};

/* a / b rounded to nearest, given 1 / b rounded to nearest (Markstein, "Computation of elementary
 * functions on the IBM RISC System/6000", 1990): bit-identical to a division, in a third of the
 * time. */
__device__ static float divide(float a, float b, float reciprocal_b)
{
    float q = a * reciprocal_b;
    return fmaf(fmaf(-q, b, a), reciprocal_b, q);
}

__device__ static float normalize(uint8_t value, const struct color &color)
{
    float x = divide((float)value, 255.0f, 1.0f / 255.0f) - color.mean;
    return divide(x, color.deviation, color.reciprocal_deviation);
}

template <int N> struct alignas(N) byte_pack {
    uint8_t at[N];
};

/* ALIGNED: a lane's N values are N consecutive bytes of an image, aligned to N. */
template <typename T, int N, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    patch_rows(T *out, const uint8_t *images, struct patch_layout layout)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    if (row >= layout.patches)
        return;
    uint64_t patch_row =
        row / layout.patches_per_row; /* row of patches, counted across all images */
    uint64_t stride = (uint64_t)layout.patches_per_row * layout.line;
    uint32_t line = layout.line, values = line * layout.patch;
    const uint8_t *from =
        images + patch_row * layout.patch * stride + row % layout.patches_per_row * line;
    for (uint32_t first = threadIdx.x % WARP_THREADS * N; first < values;
         first += WARP_THREADS * N) {
        uint32_t y = first / line, x = first % line;
        byte_pack<N> pixels;
        if constexpr (ALIGNED) {
            pixels = *reinterpret_cast<const byte_pack<N> *>(from + y * stride + x);
        } else {
            for (int i = 0; i < N; i++) {
                pixels.at[i] = from[y * stride + x];
                x = x + 1 < line ? x + 1 : 0;
                y += x == 0;
            }
        }
        struct color colors[COLORS];
        for (int i = 0; i < COLORS; i++)
            colors[i] = layout.colors[(first + i) % COLORS];
        packed<T, N> p;
#pragma unroll
        for (int i = 0; i < N; i++)
            p.element[i] = from_float<T>(normalize(pixels.at[i], colors[i % COLORS]));
        store_packed(out + row * values + first, p);
    }
}

cudaError_t cuda_patches(enum dtype type, const struct cuda_images *shape, void *out,
                         const uint8_t *images, cudaStream_t stream)
{
    uint64_t across = shape->side / shape->patch;
    struct patch_layout layout = {shape->items * across * across,
                                  (uint32_t)across,
                                  (uint32_t)(shape->patch * COLORS),
                                  (uint32_t)shape->patch,
                                  {}};
    for (int i = 0; i < COLORS; i++)
        layout.colors[i] = {shape->mean[i], shape->deviation[i], 1.0f / shape->deviation[i]};
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        constexpr int width = packed<T>::count;
        auto launch = [&](auto kernel) {
            return LAUNCH(kernel, block_count(layout.patches, WARPS), THREADS, 0, stream, (T *)out,
                          images, layout);
        };
        if (rows_are_aligned<T>(layout.line)) /* then image rows are aligned, too */
            return launch(patch_rows<T, width, true>);
        if (rows_are_aligned<T>(layout.line * shape->patch))
            return launch(patch_rows<T, width, false>);
        return launch(patch_rows<T, 1, true>);
    });
}
