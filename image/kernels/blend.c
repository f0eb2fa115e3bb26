/*
 * blend — see blend.h. One loop serves all instruction sets, because compilers vectorize it well
 * from AVX-512 to NEON (as plain C on ARM).
 */
#include "image/kernels/blend.h"

/* With weights of 0..256, every sum fits in 16 bits. */
static inline __attribute__((always_inline)) void
blend(uint8_t *restrict own, const uint8_t *restrict other, size_t count, uint32_t own_weight)
{
    uint16_t mine = (uint16_t)own_weight, rest = (uint16_t)(BLEND_ONE - own_weight);
    for (size_t i = 0; i < count; i++)
        own[i] = (uint8_t)((uint16_t)(own[i] * mine + other[i] * rest + BLEND_ONE / 2) / BLEND_ONE);
}

typedef void blend_fn(uint8_t *own, const uint8_t *other, size_t count, uint32_t own_weight);

static void blend_plain(uint8_t *own, const uint8_t *other, size_t count, uint32_t own_weight)
{
    blend(own, other, count, own_weight);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void blend_avx2(uint8_t *own, const uint8_t *other,
                                                       size_t count, uint32_t own_weight)
{
    blend(own, other, count, own_weight);
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static void
blend_avx512(uint8_t *own, const uint8_t *other, size_t count, uint32_t own_weight)
{
    blend(own, other, count, own_weight);
}
#endif

void blend_bytes(enum image_kernels kernels, uint8_t *own, const uint8_t *other, size_t count,
                 uint32_t own_weight)
{
    static blend_fn *const blends[IMAGE_KERNELS_COUNT] = {
        [IMAGE_KERNELS_PLAIN] = blend_plain,
        [IMAGE_KERNELS_NEON] = blend_plain,
#ifdef __x86_64__
        [IMAGE_KERNELS_AVX2] = blend_avx2,
        [IMAGE_KERNELS_AVX512] = blend_avx512,
#endif
    };
    blends[kernels](own, other, count, own_weight);
}
