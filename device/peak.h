/*
 * peak — the peak floating-point operations per second of a GPU in matrix products.
 */
#ifndef MILLRACE_DEVICE_PEAK_H
#define MILLRACE_DEVICE_PEAK_H

#include "base/dtype.h"
#include "device/device_cuda.h"

/* Dense operations per cycle of one multiprocessor with float accumulation, times multiprocessors,
 * times the highest clock. compute: DTYPE_F32, DTYPE_BF16 or DTYPE_F16; for the latter two, GeForce
 * cards have half the rate. 0 if unknown for this compute capability. Data sheets may assume a
 * lower clock (H100 SXM: 989 TFLOP/s at 1830 MHz; the highest is 1980). */
double peak_flops(const struct device_cuda_info *info, enum dtype compute);

#endif
