/*
 * device_clock — the device's time in nanoseconds, consistent across kernels and multiprocessors.
 * The resolution is one microsecond or better.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_DEVICE_CLOCK_H
#define MILLRACE_TRAINER_OPS_CUDA_DEVICE_CLOCK_H

#include <stdint.h>

#ifdef __CUDACC__

__device__ inline uint64_t device_clock_ns()
{
    uint64_t now_ns;
    asm volatile("mov.u64 %0, %%globaltimer;\n" : "=l"(now_ns));
    return now_ns;
}

#else

#ifdef __cplusplus
extern "C"
#endif
    uint64_t
    device_clock_ns(void); /* the tests define it (tests/cuda_on_cpu/clock.c) */

#endif

#endif
