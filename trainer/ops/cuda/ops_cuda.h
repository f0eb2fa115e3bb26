/*
 * ops_cuda — the compute ops of a CUDA device.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_OPS_CUDA_H
#define MILLRACE_TRAINER_OPS_CUDA_OPS_CUDA_H

#include "trainer/ops/ops.h"

/* device: from device_cuda_open, borrowed. compute: DTYPE_F32, DTYPE_BF16 or DTYPE_F16; the master
 * type is F32. The caller owns *ret_ops. -ENODEV in a build without CUDA. */
int ops_cuda_open(struct device *device, enum dtype compute, struct ops **ret_ops, struct err *err);

#endif
