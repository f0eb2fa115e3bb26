/*
 * kernels — for which instruction set the inner loops of image/ are written, and which of them this
 * processor has.
 *
 * All of them compute in integers and give the same bytes; plain C is what the others are tested
 * against.
 */
#ifndef MILLRACE_IMAGE_KERNELS_H
#define MILLRACE_IMAGE_KERNELS_H

#include <stdbool.h>

/* From the plainest to the best. */
enum image_kernels {
    IMAGE_KERNELS_PLAIN,
    IMAGE_KERNELS_NEON,
    IMAGE_KERNELS_AVX2,
    IMAGE_KERNELS_AVX512, /* F, BW and VL */
    IMAGE_KERNELS_COUNT
};

/* "avx512" and the like; "baseline" for plain C. */
const char *image_kernels_name(enum image_kernels kernels);
/* Whether this build has them and this processor can run them. */
bool image_kernels_has(enum image_kernels kernels);
enum image_kernels image_kernels_best(void);

#endif
