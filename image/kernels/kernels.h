/*
 * kernels — instruction sets of the inner loops of image/.
 *
 * All variants use integer arithmetic and produce identical bytes; tests compare the SIMD
 * variants with plain C.
 */
#ifndef MILLRACE_IMAGE_KERNELS_KERNELS_H
#define MILLRACE_IMAGE_KERNELS_KERNELS_H

#include <stdbool.h>

/* From slowest to fastest. */
enum image_kernels {
    IMAGE_KERNELS_PLAIN,
    IMAGE_KERNELS_NEON,
    IMAGE_KERNELS_AVX2,
    IMAGE_KERNELS_AVX512, /* F, BW, VL and VBMI: since Ice Lake and Zen 4 */
    IMAGE_KERNELS_COUNT
};

/* For example "avx512"; "baseline" for plain C. */
const char *image_kernels_name(enum image_kernels kernels);
/* True if both this build and this processor support them. */
bool image_kernels_supported(enum image_kernels kernels);
enum image_kernels image_kernels_best(void);

#endif
