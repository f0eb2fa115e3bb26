/*
 * runtime_device — the CUDA runtime's device and error functions that millrace uses.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = CUDART_VERSION, CLOCK_KHZ = 1000000 };

static _Thread_local cudaError_t last_error;
static _Atomic int driver_version = VERSION, device_count = 1;

cudaError_t status_set(cudaError_t status)
{
    if (status != cudaSuccess && status != cudaErrorNotReady)
        last_error = status;
    return status;
}

void shim_set_driver(int version, int devices)
{
    driver_version = version;
    device_count = devices;
}

/* Written only while nothing runs. */
static struct shim_architecture architecture_in_use = {9, 0, 227 << 10};

void shim_set_architecture(struct shim_architecture architecture)
{
    architecture_in_use = architecture;
}

struct shim_architecture shim_architecture(void)
{
    return architecture_in_use;
}

/* A missing driver and one with an older major version give the same error. */
static cudaError_t driver_status(void)
{
    return driver_version / 1000 < VERSION / 1000 ? cudaErrorInsufficientDriver
           : device_count == 0                    ? cudaErrorNoDevice
                                                  : cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    cudaError_t status = last_error;
    last_error = cudaSuccess;
    return status;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t status;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
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
    cudaError_t status = driver_status();
    *count = status == cudaSuccess ? device_count : 0;
    return status_set(status);
}

static cudaError_t device_check(int device)
{
    cudaError_t status = driver_status();
    return status != cudaSuccess                  ? status
           : device >= 0 && device < device_count ? cudaSuccess
                                                  : cudaErrorInvalidDevice;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    return status_set(device_check(device));
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    *device = 0;
    return status_set(driver_status());
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
    properties->major = architecture_in_use.major;
    properties->minor = architecture_in_use.minor;
    properties->multiProcessorCount = 4;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = architecture_in_use.shared_bytes_max;
    properties->sharedMemPerMultiprocessor = architecture_in_use.shared_bytes_max + 1024;
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
    case cudaDevAttrClockRate:
        *value = CLOCK_KHZ;
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

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *bus, int bytes, int device)
{
    cudaError_t status = device_check(device);
    if (status == cudaSuccess)
        snprintf(bus, (size_t)bytes, "0000:%02x:00.0", device + 1);
    return status_set(status);
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    *version = driver_version;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaProfilerStart(void)
{
    return status_set(driver_status());
}

cudaError_t CUDARTAPI cudaProfilerStop(void)
{
    return status_set(driver_status());
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    cudaError_t status = driver_status();
    return status_set(status != cudaSuccess ? status : queue_wait_all());
}
