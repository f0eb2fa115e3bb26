/*
 * peak — the peak FLOP/s of a GPU in matrix products.
 */
#ifndef MILLRACE_DEVICE_PEAK_H
#define MILLRACE_DEVICE_PEAK_H

#include "base/dtype.h"
#include "device/device_cuda.h"

/* Assumes dense operands, float accumulation and the highest clock. compute: DTYPE_F32, DTYPE_BF16
 * or DTYPE_F16; for the 16-bit types, GeForce cards have half the rate. 0 for an unknown compute
 * capability. Data sheets may assume a lower clock (H100 SXM: 989 TFLOP/s at 1830 MHz; the highest
 * is 1980). */
double peak_flops(const struct device_cuda_info *info, enum dtype compute);

#endif
