/*
 * time_parts — measures device time with the device's clock: a struct time_parts
 * (trainer/ops/time_parts.h) in device memory, switched in stream order, even within graphs.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_TIME_PARTS_H
#define MILLRACE_TRAINER_OPS_CUDA_TIME_PARTS_H

#include "trainer/ops/time_parts.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* parts: device memory. Queued on the stream. */
cudaError_t cuda_time_switch(struct time_parts *parts, enum time_part part, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
