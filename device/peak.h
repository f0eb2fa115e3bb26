/*
 * peak — the most floating-point operations a second that a GPU can do in a product of matrices.
 */
#ifndef MILLRACE_DEVICE_PEAK_H
#define MILLRACE_DEVICE_PEAK_H

#include "base/dtype.h"
#include "device/device_cuda.h"

/* Operations of one multiprocessor a cycle, dense, sums in float, times multiprocessors, times the
 * highest clock. DTYPE_F32, DTYPE_BF16 or DTYPE_F16; of these two a card that is named GeForce does
 * half. 0 where it is not known of this compute capability. Data sheets may count with a lower
 * clock than the highest (H100 SXM: 989 TFLOP/s at 1830 MHz; the highest is 1980). */
double peak_flops(const struct device_cuda_info *info, enum dtype compute);

#endif
