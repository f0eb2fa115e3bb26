/*
 * device_cuda — a GPU as a device, through the CUDA runtime. Only this file handles CUDA error
 * codes.
 *
 * Streams do not synchronize with the default stream, which only zeroes new memory. Event waits
 * block instead of spinning, which leaves the core to the loader. Operations first set the calling
 * thread's device, because the runtime keeps it per thread.
 */
#include "device/device_cuda.h"

#include "base/str.h"
#include "device/device_cuda_graph.h"
#include "device/device_mem_stats.h"
#include "device/device_pages.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernels require bf16 on tensor cores and asynchronous copies. */
enum { CAPABILITY_MAJOR_MIN = 8 };

struct device_cuda {
    struct device base;
    struct device_mem_stats mem_stats;
    struct device_cuda_info info;
};

struct device_stream {
    cudaStream_t handle;
};

struct device_event {
    cudaEvent_t handle;
};

static int version_major(int version)
{
    return version / 1000;
}

static int version_minor(int version)
{
    return version % 1000 / 10;
}

/* The runtime reports absent and outdated drivers with one code. */
static int no_device_error(cudaError_t status, struct err *err)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
        err_set(err, -ENODEV, "no NVIDIA driver on this machine");
        err_advise(err, "use device cpu, or install the driver and check it with nvidia-smi");
    } else if (status == cudaErrorInsufficientDriver) {
        err_set(err, -ENODEV, "the NVIDIA driver is too old");
        err_expected(err, "one for CUDA %d.%d or newer", version_major(CUDART_VERSION),
                     version_minor(CUDART_VERSION));
        err_found(err, "one for CUDA %d.%d", version_major(driver), version_minor(driver));
        err_advise(err, "use device cpu, or update the driver");
    } else if (status == cudaSuccess || status == cudaErrorNoDevice) {
        err_set(err, -ENODEV, "there is no GPU that CUDA can use");
        err_advise(err, "use device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES");
    } else {
        err_set(err, -ENODEV, "cannot use the GPU: %s", cudaGetErrorString(status));
        err_advise(err, "use device cpu, or check nvidia-smi and the kernel log");
    }
    return -ENODEV;
}

int device_cuda_status(const struct device *device, int cuda_status, const char *what,
                       struct err *err)
{
    const struct device_cuda *cuda = (const struct device_cuda *)device;
    if (cuda_status == cudaSuccess)
        return 0;
    cudaGetLastError(); /* otherwise the error would be reported again */
    if (cuda_status == cudaErrorMemoryAllocation) {
        err_set(err, -ENOMEM, "out of memory on %s: %s", cuda->info.name, what);
        err_advise(err, "reduce the batch or the model");
        return -ENOMEM;
    }
    err_set(err, -EIO, "%s failed: %s: %s", cuda->info.name, what,
            cudaGetErrorString((cudaError_t)cuda_status));
    err_advise(err, "restart from the last checkpoint; if the failure repeats, look for an Xid "
                    "message in the kernel log");
    return -EIO;
}

int device_cuda_use(struct device *device, struct err *err)
{
    return device_cuda_status(device, cudaSetDevice(((struct device_cuda *)device)->info.ordinal),
                              "choosing the device", err);
}

static int out_of_memory_error(const struct device_cuda *cuda, enum mem_kind kind, size_t bytes,
                               struct err *err)
{
    static const char *const names[MEM_KIND_COUNT] = {"plain", "huge-page", "pinned", "device"};
    size_t free_bytes = 0, total_bytes = 0;
    char requested[STR_SIZE_BYTES], left[STR_SIZE_BYTES], total[STR_SIZE_BYTES];
    cudaGetLastError();
    err_set(err, -ENOMEM, "out of memory: %s (%zu bytes) of %s memory with %s",
            str_format_size(bytes, requested), bytes, names[kind], cuda->info.name);
    if (kind == MEM_DEVICE && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        err_found(err, "%s free of %s", str_format_size(free_bytes, left),
                  str_format_size(total_bytes, total));
    err_advise(err, "reduce the batch, the model or the memory budget");
    return -ENOMEM;
}

static void memory_free(enum mem_kind kind, void *memory, size_t bytes)
{
    switch (kind) {
    case MEM_DEVICE:
        cudaFree(memory);
        break;
    case MEM_PINNED:
        cudaFreeHost(memory);
        break;
    default:
        pages_unmap(memory, bytes);
        break;
    }
}

/* cudaErrorMemoryAllocation if there is not enough memory. */
static cudaError_t memory_alloc(enum mem_kind kind, size_t bytes, void **ret_memory)
{
    cudaError_t status;
    switch (kind) {
    case MEM_DEVICE:
        status = cudaMalloc(ret_memory, bytes);
        if (status != cudaSuccess)
            return status;
        status = cudaMemset(*ret_memory, 0, bytes);
        if (status == cudaSuccess)
            status = cudaStreamSynchronize(cudaStreamLegacy);
        if (status != cudaSuccess)
            cudaFree(*ret_memory);
        return status;
    case MEM_PINNED:
        status = cudaHostAlloc(ret_memory, bytes, cudaHostAllocPortable);
        if (status == cudaSuccess)
            memset(*ret_memory, 0, bytes);
        return status;
    default:
        *ret_memory = pages_map(kind == MEM_HUGE, bytes);
        return *ret_memory ? cudaSuccess : cudaErrorMemoryAllocation;
    }
}

static int cuda_mem_alloc(struct device *device, unsigned kind, size_t bytes, void **ret_memory,
                          struct err *err)
{
    struct device_cuda *cuda = (struct device_cuda *)device;
    void *memory = NULL;
    assert(bytes > 0);
    int status = device_cuda_use(device, err);
    if (status)
        return status;
    cudaError_t cuda_status = memory_alloc(mem_kind_of(kind), bytes, &memory);
    if (cuda_status == cudaErrorMemoryAllocation)
        return out_of_memory_error(cuda, mem_kind_of(kind), bytes, err);
    if (cuda_status != cudaSuccess)
        return device_cuda_status(device, cuda_status, "allocating memory", err);
    assert((uintptr_t)memory % (mem_kind_of(kind) == MEM_DEVICE ? DEVICE_MEM_ALIGN_DEVICE_BYTES
                                                                : DEVICE_MEM_ALIGN_BYTES) ==
           0);
    device_mem_stats_add(&cuda->mem_stats, kind, bytes);
    *ret_memory = memory;
    return 0;
}

static void cuda_mem_free(struct device *device, unsigned kind, void *memory, size_t bytes)
{
    if (!memory)
        return;
    device_cuda_use(device, NULL);
    memory_free(mem_kind_of(kind), memory, bytes);
    device_mem_stats_sub(&((struct device_cuda *)device)->mem_stats, kind, bytes);
}

static void cuda_mem_info(struct device *device, struct device_mem_info *ret_info)
{
    size_t free_bytes = 0, total_bytes = 0;
    *ret_info = (struct device_mem_info){0};
    device_mem_stats_read(&((struct device_cuda *)device)->mem_stats, ret_info);
    if (device_cuda_use(device, NULL) == 0 &&
        cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
        ret_info->free_bytes = free_bytes;
        ret_info->total_bytes = total_bytes;
    }
}

static int cuda_stream_open(struct device *device, struct device_stream **ret_stream,
                            struct err *err)
{
    int status = device_cuda_use(device, err);
    if (status)
        return status;
    struct device_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return err_set(err, -ENOMEM, "out of memory for a stream");
    status = device_cuda_status(device,
                                cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking),
                                "opening a stream", err);
    if (status)
        free(stream);
    else
        *ret_stream = stream;
    return status;
}

static void cuda_stream_close(struct device *device, struct device_stream *stream)
{
    if (!stream)
        return;
    device_cuda_use(device, NULL);
    cudaStreamDestroy(stream->handle);
    free(stream);
}

static int cuda_stream_wait_event(struct device *device, struct device_stream *stream,
                                  struct device_event *event, struct err *err)
{
    return DEVICE_CUDA_CALL(device, cudaStreamWaitEvent(stream->handle, event->handle, 0),
                            "waiting for an event", err);
}

static int cuda_stream_sync(struct device *device, struct device_stream *stream, struct err *err)
{
    return DEVICE_CUDA_CALL(device, cudaStreamSynchronize(stream->handle), "the queued work", err);
}

static int cuda_event_open(struct device *device, struct device_event **ret_event, struct err *err)
{
    int status = device_cuda_use(device, err);
    if (status)
        return status;
    struct device_event *event = calloc(1, sizeof *event);
    if (!event)
        return err_set(err, -ENOMEM, "out of memory for an event");
    status = device_cuda_status(
        device,
        cudaEventCreateWithFlags(&event->handle, cudaEventDisableTiming | cudaEventBlockingSync),
        "opening an event", err);
    if (status)
        free(event);
    else
        *ret_event = event;
    return status;
}

static void cuda_event_close(struct device *device, struct device_event *event)
{
    if (!event)
        return;
    device_cuda_use(device, NULL);
    cudaEventDestroy(event->handle);
    free(event);
}

static int cuda_event_record(struct device *device, struct device_event *event,
                             struct device_stream *stream, struct err *err)
{
    return DEVICE_CUDA_CALL(device, cudaEventRecord(event->handle, stream->handle),
                            "recording an event", err);
}

static int cuda_event_done(struct device *device, struct device_event *event, bool *ret_done,
                           struct err *err)
{
    int status = device_cuda_use(device, err);
    if (status)
        return status;
    cudaError_t cuda_status = cudaEventQuery(event->handle);
    if (cuda_status != cudaErrorNotReady)
        status = device_cuda_status(device, cuda_status, "the queued work", err);
    if (!status)
        *ret_done = cuda_status == cudaSuccess;
    return status;
}

static int cuda_event_wait(struct device *device, struct device_event *event, struct err *err)
{
    return DEVICE_CUDA_CALL(device, cudaEventSynchronize(event->handle), "the queued work", err);
}

static int cuda_copy(struct device *device, struct device_stream *stream, void *target,
                     const void *source, size_t bytes, struct err *err)
{
    int status = device_cuda_use(device, err);
    if (status || bytes == 0)
        return status;
    return device_cuda_status(
        device, cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream->handle), "a copy",
        err);
}

/* The device fills memory that it can access. The host fills pageable memory, once the stream is
 * idle. */
static int cuda_fill(struct device *device, struct device_stream *stream, void *target, int byte,
                     size_t bytes, struct err *err)
{
    struct cudaPointerAttributes attributes;
    int status = device_cuda_use(device, err);
    if (status || bytes == 0)
        return status;
    status =
        device_cuda_status(device, cudaPointerGetAttributes(&attributes, target), "a fill", err);
    if (status)
        return status;
    if (attributes.type != cudaMemoryTypeUnregistered)
        return device_cuda_status(device, cudaMemsetAsync(target, byte, bytes, stream->handle),
                                  "a fill", err);
    status = cuda_stream_sync(device, stream, err);
    if (!status)
        memset(target, byte, bytes);
    return status;
}

static void cuda_close(struct device *device)
{
    free(device);
}

static const struct device_ops cuda_ops = {
    .name = "cuda",
    .mem_alloc = cuda_mem_alloc,
    .mem_free = cuda_mem_free,
    .mem_info = cuda_mem_info,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_wait_event = cuda_stream_wait_event,
    .stream_sync = cuda_stream_sync,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_done = cuda_event_done,
    .event_wait = cuda_event_wait,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .graph_begin = device_cuda_graph_begin,
    .graph_end = device_cuda_graph_end,
    .graph_launch = device_cuda_graph_launch,
    .graph_close = device_cuda_graph_close,
    .close = cuda_close,
};

int device_cuda_count(int *ret_count, struct err *err)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        cudaGetLastError();
        return no_device_error(status, err);
    }
    *ret_count = count;
    return 0;
}

int device_cuda_describe(int ordinal, struct device_cuda_info *ret_info, struct err *err)
{
    int count;
    int status = device_cuda_count(&count, err);
    if (status)
        return status;
    if (ordinal < 0 || ordinal >= count) {
        err_set(err, -ENODEV, "there is no GPU %d", ordinal);
        err_expected(err, "0 to %d", count - 1);
        return -ENODEV;
    }
    struct cudaDeviceProp properties;
    struct device_cuda_info info = {.ordinal = ordinal};
    int clock_khz = 0;
    cudaError_t cuda_status = cudaGetDeviceProperties(&properties, ordinal);
    if (cuda_status == cudaSuccess)
        cuda_status = cudaDeviceGetPCIBusId(info.bus, sizeof info.bus, ordinal);
    if (cuda_status == cudaSuccess)
        cuda_status = cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal);
    if (cuda_status == cudaSuccess)
        cuda_status = cudaDriverGetVersion(&info.driver_version);
    if (cuda_status == cudaSuccess)
        cuda_status = cudaRuntimeGetVersion(&info.runtime_version);
    if (cuda_status != cudaSuccess)
        return no_device_error(cuda_status, err);
    snprintf(info.name, sizeof info.name, "%s", properties.name);
    info.capability_major = properties.major;
    info.capability_minor = properties.minor;
    info.multiprocessors = properties.multiProcessorCount;
    info.clock_hz = (uint64_t)clock_khz * 1000;
    info.total_bytes = properties.totalGlobalMem;
    info.shared_bytes_max = properties.sharedMemPerBlockOptin;
    info.l2_bytes = (uint64_t)properties.l2CacheSize;
    *ret_info = info;
    return 0;
}

const struct device_cuda_info *device_cuda_info(const struct device *device)
{
    return &((const struct device_cuda *)device)->info;
}

struct CUstream_st *device_cuda_stream(struct device_stream *stream)
{
    return stream->handle;
}

int device_cuda_open(int ordinal, struct device **ret_device, struct err *err)
{
    struct device_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return err_set(err, -ENOMEM, "out of memory for the CUDA device");
    cuda->base.ops = &cuda_ops;
    int status = device_cuda_describe(ordinal, &cuda->info, err);
    if (!status && cuda->info.capability_major < CAPABILITY_MAJOR_MIN) {
        status = err_set(err, -ENODEV, "%s is too old for this build", cuda->info.name);
        err_expected(err, "compute capability %d.0 or higher", CAPABILITY_MAJOR_MIN);
        err_found(err, "%d.%d", cuda->info.capability_major, cuda->info.capability_minor);
        err_advise(err, "use device cpu");
    }
    if (!status)
        status = device_cuda_use(&cuda->base, err);
    if (status)
        free(cuda);
    else
        *ret_device = &cuda->base;
    return status;
}
