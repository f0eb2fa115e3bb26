/*
 * times — see times.h.
 */
#include "trainer/ops/cuda/times.h"

#include "trainer/ops/cuda/device_clock.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

/* Only one thread works; a block is a warp. */
__global__ void __launch_bounds__(WARP_THREADS) turn(struct time_parts *parts, enum time_part part)
{
    if (threadIdx.x == 0)
        time_parts_turn(parts, part, device_clock_ns());
}

cudaError_t cuda_turn(struct time_parts *parts, enum time_part part, cudaStream_t stream)
{
    return LAUNCH(turn, 1, WARP_THREADS, 0, stream, parts, part);
}
