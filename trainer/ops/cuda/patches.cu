/*
 * patches — see patches.h. A warp handles a row of patches; a lane produces 16 bytes of the result
 * at a time.
 */
#include "trainer/ops/cuda/patches.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

enum { THREADS = 256, WARPS = THREADS / WARP_THREADS, COLOURS = 3 };

struct colour {
    float mean, deviation, per_deviation;
};

struct layout {
    uint64_t patches;     /* of all images */
    uint32_t across;      /* patches in a row of an image */
    uint32_t line, patch; /* values in a row of a patch; rows of a patch */
    struct colour colours[COLOURS];
};

/* a / b rounded to nearest, given 1 / b rounded to nearest (Markstein, "Computation of elementary
 * functions on the IBM RISC System/6000", 1990): same bits as a division, in a third of the
 * time. */
__device__ static float quotient(float a, float b, float per_b)
{
    float q = a * per_b;
    return fmaf(fmaf(-q, b, a), per_b, q);
}

__device__ static float normalised(uint8_t value, const struct colour &colour)
{
    float x = quotient((float)value, 255.0f, 1.0f / 255.0f) - colour.mean;
    return quotient(x, colour.deviation, colour.per_deviation);
}

/* The bytes that one load reads. */
template <int N> struct alignas(N) bytes {
    uint8_t at[N];
};

/* ALIGNED: the N values of a lane are N consecutive bytes of an image, at an address that is a
 * multiple of N. */
template <typename T, int N, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    patch_rows(T *out, const uint8_t *images, struct layout layout)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    if (row >= layout.patches)
        return;
    uint64_t band = row / layout.across; /* row of patches, counted through all images */
    uint64_t stride = (uint64_t)layout.across * layout.line;
    uint32_t line = layout.line, values = line * layout.patch;
    const uint8_t *from = images + band * layout.patch * stride + row % layout.across * line;
    for (uint32_t first = threadIdx.x % WARP_THREADS * N; first < values;
         first += WARP_THREADS * N) {
        uint32_t y = first / line, x = first % line;
        bytes<N> pixels;
        if constexpr (ALIGNED) {
            pixels = *reinterpret_cast<const bytes<N> *>(from + y * stride + x);
        } else {
            for (int i = 0; i < N; i++) {
                pixels.at[i] = from[y * stride + x];
                x = x + 1 < line ? x + 1 : 0;
                y += x == 0;
            }
        }
        struct colour colours[COLOURS];
        for (int i = 0; i < COLOURS; i++)
            colours[i] = layout.colours[(first + i) % COLOURS];
        packed<T, N> p;
#pragma unroll
        for (int i = 0; i < N; i++)
            p.element[i] = from_float<T>(normalised(pixels.at[i], colours[i % COLOURS]));
        store_packed(out + row * values + first, p);
    }
}

cudaError_t cuda_patches(enum dtype type, const struct cuda_images *shape, void *out,
                         const uint8_t *images, cudaStream_t stream)
{
    uint64_t across = shape->side / shape->patch;
    struct layout layout = {shape->items * across * across,
                            (uint32_t)across,
                            (uint32_t)(shape->patch * COLOURS),
                            (uint32_t)shape->patch,
                            {}};
    for (int i = 0; i < COLOURS; i++)
        layout.colours[i] = {shape->mean[i], shape->deviation[i], 1.0f / shape->deviation[i]};
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        constexpr int width = packed<T>::count;
        auto launch = [&](auto kernel) {
            return LAUNCH(kernel, blocks_of(layout.patches, WARPS), THREADS, 0, stream, (T *)out,
                          images, layout);
        };
        if (rows_are_packed<T>(layout.line)) /* then rows of images are packed, too */
            return launch(patch_rows<T, width, true>);
        if (rows_are_packed<T>(layout.line * shape->patch))
            return launch(patch_rows<T, width, false>);
        return launch(patch_rows<T, 1, true>);
    });
}
