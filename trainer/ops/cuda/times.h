/*
 * times — where the time of a device goes, by its own clock: trainer/ops/time_parts.h in its
 * memory, turned in the order of a stream, within graphs too. What was queued before has ended when
 * the time of the next part begins.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_TIMES_H
#define MILLRACE_TRAINER_OPS_CUDA_TIMES_H

#include "trainer/ops/time_parts.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* parts: device memory. Queued on the stream. */
cudaError_t cuda_turn(struct time_parts *parts, enum time_part part, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
