/*
 * category_timer — see category_timer.h.
 */
#include "trainer/ops/cuda/category_timer.h"

#include "trainer/ops/cuda/device_clock.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

__global__ void __launch_bounds__(WARP_THREADS)
    switch_category(struct category_timer *timer, enum time_category category)
{
    if (threadIdx.x == 0)
        category_timer_switch(timer, category, device_clock_ns());
}

cudaError_t cuda_switch_category(struct category_timer *timer, enum time_category category,
                                 cudaStream_t stream)
{
    return LAUNCH(switch_category, 1, WARP_THREADS, 0, stream, timer, category);
}
