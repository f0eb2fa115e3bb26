/*
 * runtime_device — the CUDA runtime's functions about the device and about errors, as far as we use them.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = CUDART_VERSION };

static _Thread_local cudaError_t last;
static _Atomic cudaError_t device_status = cudaSuccess;

cudaError_t status_set(cudaError_t status)
{
    if (status != cudaSuccess && status != cudaErrorNotReady)
        last = status;
    return status;
}

void shim_set_device(cudaError_t status)
{
    device_status = status;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t status = last;
    last = cudaSuccess;
    return status;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return last;
}

static const struct {
    cudaError_t status;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
};

const char *CUDARTAPI cudaGetErrorName(cudaError_t status)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].status == status)
            return errors[i].name;
    return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t status)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].status == status)
            return errors[i].text;
    return "unrecognized error code";
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    *count = device_status == cudaSuccess;
    return status_set(device_status);
}

static cudaError_t device_check(int device)
{
    return device_status != cudaSuccess ? device_status : device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    return status_set(device_check(device));
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    *device = 0;
    return status_set(device_status);
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t status = device_check(device);
    if (status != cudaSuccess)
        return status_set(status);
    size_t unused;
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "CPU behind tests/cuda_on_cpu");
    memory_info(&unused, &properties->totalGlobalMem);
    properties->major = 9;
    properties->multiProcessorCount = 4;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->sharedMemPerMultiprocessor = 228 << 10;
    properties->unifiedAddressing = 1;
    properties->asyncEngineCount = 2;
    properties->l2CacheSize = 50 << 20;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess)
        return status;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)properties.sharedMemPerBlockOptin;
        return cudaSuccess;
    default:
        return status_set(cudaErrorInvalidValue);
    }
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    return status_set(device_status != cudaSuccess ? device_status : queue_wait_all());
}
