/*
 * runtime_memory — the CUDA runtime's functions that allocate, copy and fill memory, as far as
 * millrace uses them.
 *
 * Asynchronous behavior follows "API synchronization behavior" in the CUDA runtime's reference.
 * Where the reference leaves a choice, the shim gives the weakest guarantee: pinned memory is read
 * and written when the copy runs; pageable memory is read at once and written before the call
 * returns; between two ranges of device memory, even cudaMemcpy only queues the copy.
 */
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"
#include "tests/cuda_on_cpu/violation.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static cudaError_t allocate(enum memory_kind kind, void **memory, size_t bytes)
{
    void *got = NULL;
    int device;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = queue_check_allocation();
    if (status != cudaSuccess)
        return status_set(status);
    if (bytes > 0) {
        got = memory_alloc(kind, bytes);
        if (!got)
            return status_set(cudaErrorMemoryAllocation);
    }
    *memory = got;
    return cudaSuccess;
}

/* Waits for the whole device, as CUDA does. */
static cudaError_t release(enum memory_kind kind, void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaError_t status = queue_wait_all();
    if (status == cudaErrorStreamCaptureUnsupported)
        return status_set(status);
    return status_set(memory_free(kind, memory) ? status : cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaMalloc(void **memory, size_t bytes)
{
    return allocate(MEMORY_DEVICE, memory, bytes);
}

cudaError_t CUDARTAPI cudaFree(void *memory)
{
    return release(MEMORY_DEVICE, memory);
}

cudaError_t CUDARTAPI cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    return allocate(MEMORY_PINNED, memory, bytes);
}

cudaError_t CUDARTAPI cudaMallocHost(void **memory, size_t bytes)
{
    return allocate(MEMORY_PINNED, memory, bytes);
}

cudaError_t CUDARTAPI cudaFreeHost(void *memory)
{
    return release(MEMORY_PINNED, memory);
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    memory_info(free_bytes, total_bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                               const void *memory)
{
    static const enum cudaMemoryType types[] = {[MEMORY_PAGEABLE] = cudaMemoryTypeUnregistered,
                                                [MEMORY_PINNED] = cudaMemoryTypeHost,
                                                [MEMORY_DEVICE] = cudaMemoryTypeDevice};
    enum memory_kind kind = memory_kind_of(memory, 0, "a pointer query");
    *attributes = (struct cudaPointerAttributes){
        .type = types[kind],
        .devicePointer = kind == MEMORY_PAGEABLE ? NULL : (void *)memory,
        .hostPointer = kind == MEMORY_PINNED ? (void *)memory : NULL,
    };
    return cudaSuccess;
}

struct copy {
    char *target;
    const char *source;
    size_t bytes;
    char staged[]; /* for pageable memory: its contents at the time of the call */
};

static void run_copy(void *data)
{
    struct copy *copy = data;
    memmove(copy->target, copy->source, copy->bytes);
}

static bool is_valid_copy_kind(enum cudaMemcpyKind kind, enum memory_kind target,
                               enum memory_kind source)
{
    bool to_device = target == MEMORY_DEVICE, from_device = source == MEMORY_DEVICE;
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}

static cudaError_t queue_copy(void *target, const void *source, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
    if (bytes == 0)
        return cudaSuccess;
    enum memory_kind to = memory_kind_of(target, bytes, "the target of a copy"),
                     from = memory_kind_of(source, bytes, "the source of a copy");
    if (!is_valid_copy_kind(kind, to, from))
        return status_set(cudaErrorInvalidValue);
    bool on_host = to != MEMORY_DEVICE && from != MEMORY_DEVICE,
         staged = from == MEMORY_PAGEABLE && !on_host;
    if ((on_host || staged || to == MEMORY_PAGEABLE) && queue_is_captured(stream))
        shim_violation("a copy of pageable memory or within host memory can't be captured");
    struct copy *copy = malloc(sizeof *copy + (staged ? bytes : 0));
    if (!copy)
        return status_set(cudaErrorMemoryAllocation);
    *copy = (struct copy){target, staged ? copy->staged : source, bytes};
    if (staged)
        memcpy(copy->staged, source, bytes);
    cudaError_t status = queue_add(stream, (struct queue_work){run_copy, free, copy});
    if (status == cudaSuccess &&
        (to == MEMORY_PAGEABLE || on_host ||
         (waits && (to == MEMORY_PINNED || !staged) && !(to == from && to == MEMORY_DEVICE))))
        status = queue_wait_stream(stream);
    return status_set(status);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *target, const void *source, size_t bytes,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return queue_copy(target, source, bytes, kind, stream, false);
}

cudaError_t CUDARTAPI cudaMemcpy(void *target, const void *source, size_t bytes,
                                 enum cudaMemcpyKind kind)
{
    return queue_copy(target, source, bytes, kind, NULL, true);
}

struct fill {
    void *target;
    int byte;
    size_t bytes;
};

static void run_fill(void *data)
{
    struct fill *fill = data;
    memset(fill->target, fill->byte, fill->bytes);
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *target, int byte, size_t bytes, cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    if (memory_kind_of(target, bytes, "the target of a fill") == MEMORY_PAGEABLE)
        return status_set(cudaErrorInvalidValue);
    struct fill *fill = malloc(sizeof *fill);
    if (!fill)
        return status_set(cudaErrorMemoryAllocation);
    *fill = (struct fill){target, byte, bytes};
    return status_set(queue_add(stream, (struct queue_work){run_fill, free, fill}));
}

cudaError_t CUDARTAPI cudaMemset(void *target, int byte, size_t bytes)
{
    return cudaMemsetAsync(target, byte, bytes, NULL);
}
