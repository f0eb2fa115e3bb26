/*
 * nvml_fake — a shared object with the functions of NVIDIA's management library that device/nvml.c
 * uses. Simulates a machine with one GPU, for machines without a driver; the real library may
 * behave differently.
 *
 * NVML_FAKE in the environment: "37" is the utilization in percent, "no-driver" makes
 * initialization fail, "silent" makes the GPU report no utilization.
 */
#include <stdlib.h>
#include <string.h>

#define FAKE_BUS "0000:01:00.0" /* of the first device of tests/cuda_on_cpu */

/* From NVIDIA's nvml.h. */
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };

static char gpu; /* its address is the handle */

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int status);
int nvmlSystemGetDriverVersion(char *text, unsigned bytes);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]);

static const char *get_behavior(void)
{
    const char *value = getenv("NVML_FAKE");
    return value ? value : "0";
}

int nvmlInit_v2(void)
{
    return strcmp(get_behavior(), "no-driver") == 0 ? DRIVER_NOT_LOADED : SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(int status)
{
    return status == DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : status == NOT_FOUND       ? "Not Found"
                                       : "Not Supported";
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
    static const char version[] = "999.12.34";
    if (bytes < sizeof version)
        return NOT_SUPPORTED;
    memcpy(text, version, sizeof version);
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    if (strcmp(bus, FAKE_BUS) != 0)
        return NOT_FOUND;
    *device = &gpu;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2])
{
    if (device != &gpu || strcmp(get_behavior(), "silent") == 0)
        return NOT_SUPPORTED;
    rates[0] = (unsigned)atoi(get_behavior());
    rates[1] = rates[0] + 1;
    return SUCCESS;
}
