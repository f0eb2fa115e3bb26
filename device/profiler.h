/*
 * profiler — marks spans and the capture range for NVIDIA's profilers (NVTX).
 *
 * Without an attached profiler a span costs a pointer check; in a build without CUDA, nothing.
 *
 * Threads: spans belong to the calling thread and nest.
 */
#ifndef MILLRACE_DEVICE_PROFILER_H
#define MILLRACE_DEVICE_PROFILER_H

#ifdef __cplusplus
extern "C" {
#endif

void profiler_push(const char *name); /* name is borrowed for the call. */
void profiler_pop(void);

/* `nsys profile --capture-range=cudaProfilerApi` records only from start to stop. Both access the
 * GPU: call them only if one is in use. */
void profiler_start(void);
void profiler_stop(void);

#ifdef __cplusplus
}
#endif

#endif
