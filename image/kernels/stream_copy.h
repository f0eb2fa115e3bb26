/*
 * stream_copy — copies to memory that is not read again soon, without first loading it into the
 * cache (non-temporal stores).
 */
#ifndef MILLRACE_IMAGE_KERNELS_STREAM_COPY_H
#define MILLRACE_IMAGE_KERNELS_STREAM_COPY_H

#include "image/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

/* The copy is visible to other threads in the usual order. The processor must have the kernels. */
void stream_copy(enum image_kernels kernels, uint8_t *target, const uint8_t *source, size_t bytes);

#endif
