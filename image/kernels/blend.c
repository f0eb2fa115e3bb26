/*
 * blend — see blend.h. One loop serves all instruction sets, because compilers vectorize it well
 * from AVX-512 to NEON (as plain C on ARM).
 */
#include "image/kernels/blend.h"

/* With weights of 0..256, every sum fits in 16 bits. */
static inline __attribute__((always_inline)) void blend(uint8_t *restrict target,
                                                        const uint8_t *restrict source,
                                                        size_t count, uint32_t target_weight)
{
    uint16_t target_part = (uint16_t)target_weight,
             source_part = (uint16_t)(BLEND_ONE - target_weight);
    for (size_t i = 0; i < count; i++)
        target[i] = (uint8_t)((uint16_t)(target[i] * target_part + source[i] * source_part +
                                         BLEND_ONE / 2) /
                              BLEND_ONE);
}

typedef void blend_fn(uint8_t *target, const uint8_t *source, size_t count, uint32_t target_weight);

static void blend_plain(uint8_t *target, const uint8_t *source, size_t count,
                        uint32_t target_weight)
{
    blend(target, source, count, target_weight);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void blend_avx2(uint8_t *target, const uint8_t *source,
                                                       size_t count, uint32_t target_weight)
{
    blend(target, source, count, target_weight);
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static void
blend_avx512(uint8_t *target, const uint8_t *source, size_t count, uint32_t target_weight)
{
    blend(target, source, count, target_weight);
}
#endif

void blend_bytes(enum image_kernels kernels, uint8_t *target, const uint8_t *source, size_t count,
                 uint32_t target_weight)
{
    static blend_fn *const blends[IMAGE_KERNELS_COUNT] = {
        [IMAGE_KERNELS_PLAIN] = blend_plain,
        [IMAGE_KERNELS_NEON] = blend_plain,
#ifdef __x86_64__
        [IMAGE_KERNELS_AVX2] = blend_avx2,
        [IMAGE_KERNELS_AVX512] = blend_avx512,
#endif
    };
    blends[kernels](target, source, count, target_weight);
}
