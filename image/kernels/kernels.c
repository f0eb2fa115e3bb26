/*
 * kernels — see kernels.h.
 */
#include "image/kernels/kernels.h"

const char *image_kernels_name(enum image_kernels kernels)
{
    static const char *const names[IMAGE_KERNELS_COUNT] = {"baseline", "neon", "avx2", "avx512"};
    return names[kernels];
}

bool image_kernels_supported(enum image_kernels kernels)
{
    switch (kernels) {
    case IMAGE_KERNELS_PLAIN:
        return true;
#ifdef __aarch64__
    case IMAGE_KERNELS_NEON:
        return true; /* part of the architecture */
#endif
#ifdef __x86_64__
    case IMAGE_KERNELS_AVX2:
        return __builtin_cpu_supports("avx2");
    case IMAGE_KERNELS_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
#endif
    default:
        return false;
    }
}

enum image_kernels image_kernels_best(void)
{
    enum image_kernels best = IMAGE_KERNELS_COUNT - 1;
    while (!image_kernels_supported(best))
        best--;
    return best;
}
