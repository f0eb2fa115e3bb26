/*
 * profiler — spans of a thread's time for NVIDIA's profilers (NVTX), and where what they capture
 * begins and ends.
 *
 * Where no profiler is attached a span costs a look at a pointer; in a build without CUDA it is
 * nothing.
 *
 * Threads: spans are the calling thread's and nest.
 */
#ifndef MILLRACE_DEVICE_PROFILER_H
#define MILLRACE_DEVICE_PROFILER_H

#ifdef __cplusplus
extern "C" {
#endif

void profiler_push(const char *name); /* lives during the call */
void profiler_pop(void);

/* `nsys profile --capture-range=cudaProfilerApi` records from start to stop alone. Only where a GPU
 * is in use: they speak to it. */
void profiler_start(void);
void profiler_stop(void);

#ifdef __cplusplus
}
#endif

#endif
