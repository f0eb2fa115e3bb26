/*
 * time_parts — see time_parts.h.
 */
#include "trainer/ops/cuda/time_parts.h"

#include "trainer/ops/cuda/device_clock.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

__global__ void __launch_bounds__(WARP_THREADS)
    time_switch(struct time_parts *parts, enum time_part part)
{
    if (threadIdx.x == 0)
        time_parts_switch(parts, part, device_clock_ns());
}

cudaError_t cuda_time_switch(struct time_parts *parts, enum time_part part, cudaStream_t stream)
{
    return LAUNCH(time_switch, 1, WARP_THREADS, 0, stream, parts, part);
}
