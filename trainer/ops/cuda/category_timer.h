/*
 * category_timer — measures device time with the device's clock: a struct category_timer
 * (trainer/ops/category_timer.h) in device memory, switched in stream order, even within graphs.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_CATEGORY_TIMER_H
#define MILLRACE_TRAINER_OPS_CUDA_CATEGORY_TIMER_H

#include "trainer/ops/category_timer.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* timer: device memory. Queued on the stream. */
cudaError_t cuda_switch_category(struct category_timer *timer, enum time_category category,
                                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
