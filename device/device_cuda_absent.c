/*
 * device_cuda_absent — for builds without CUDA. Functions that take an open device are never
 * called.
 */
#include "device/device_cuda.h"
#include "device/profiler.h"

#include <errno.h>
#include <stdlib.h>

static int cuda_absent_error(struct err *err)
{
    err_set(err, -ENODEV, "this build has no CUDA");
    err_advise(err, "use device cpu, or rebuild where CMake finds a CUDA toolkit");
    return -ENODEV;
}

int device_cuda_count(int *ret_count, struct err *err)
{
    (void)ret_count;
    return cuda_absent_error(err);
}

int device_cuda_describe(int ordinal, struct device_cuda_info *ret_info, struct err *err)
{
    (void)ordinal, (void)ret_info;
    return cuda_absent_error(err);
}

int device_cuda_open(int ordinal, struct device **ret_device, struct err *err)
{
    (void)ordinal, (void)ret_device;
    return cuda_absent_error(err);
}

const struct device_cuda_info *device_cuda_info(const struct device *device)
{
    (void)device;
    abort();
}

struct CUstream_st *device_cuda_stream(struct device_stream *stream)
{
    (void)stream;
    abort();
}

int device_cuda_use(struct device *device, struct err *err)
{
    (void)device;
    return cuda_absent_error(err);
}

int device_cuda_status(const struct device *device, int cuda_status, const char *what,
                       struct err *err)
{
    (void)device, (void)cuda_status, (void)what;
    return cuda_absent_error(err);
}

void profiler_push(const char *name)
{
    (void)name;
}

void profiler_pop(void)
{
}

void profiler_start(void)
{
}

void profiler_stop(void)
{
}
