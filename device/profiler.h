/*
 * profiler — marks spans of a thread's time for NVIDIA's profilers (NVTX), and the range they
 * capture.
 *
 * Without an attached profiler, a span costs one pointer check; in a build without CUDA, nothing.
 *
 * Threads: spans belong to the calling thread and nest.
 */
#ifndef MILLRACE_DEVICE_PROFILER_H
#define MILLRACE_DEVICE_PROFILER_H

#ifdef __cplusplus
extern "C" {
#endif

void profiler_push(const char *name); /* name: used only during the call */
void profiler_pop(void);

/* `nsys profile --capture-range=cudaProfilerApi` records only from start to stop. Call these only
 * if a GPU is in use, because they access it. */
void profiler_start(void);
void profiler_stop(void);

#ifdef __cplusplus
}
#endif

#endif
