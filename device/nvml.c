/*
 * nvml — see nvml.h.
 */
#include "device/nvml.h"

#include "base/os/dynlib.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* From nvml.h. */
enum { NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3 };

struct nvml_utilization_rates {
    unsigned gpu, memory; /* percent */
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int status);
    int (*system_get_driver_version)(char *text, unsigned bytes);
    int (*device_get_handle_by_pci_bus_id)(const char *bus, struct nvmlDevice_st **gpu);
    int (*device_get_utilization_rates)(struct nvmlDevice_st *gpu,
                                        struct nvml_utilization_rates *rates);
};

static int nvml_error(const struct nvml *nvml, int status, int code, const char *what,
                      struct err *err)
{
    return err_set(err, code, "NVML could not %s: %s", what, nvml->error_string(status));
}

static int load(struct nvml *nvml, struct err *err)
{
    static const char *const names[] = {"libnvidia-ml.so.1"};
    const struct dynlib_function wanted[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlErrorString", &nvml->error_string},
        {"nvmlSystemGetDriverVersion", &nvml->system_get_driver_version},
        {"nvmlDeviceGetHandleByPciBusId_v2", &nvml->device_get_handle_by_pci_bus_id},
        {"nvmlDeviceGetUtilizationRates", &nvml->device_get_utilization_rates},
    };
    void *library = dynlib_open(names, 1);
    if (!library) {
        err_set(err, -ENODEV, "cannot load NVML: %s", dlerror());
        err_advise(err, "install the NVIDIA driver; in a container, add the driver's utility "
                        "libraries (NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
        return -ENODEV;
    }
    const char *missing_function = dynlib_find(library, wanted, sizeof wanted / sizeof wanted[0]);
    if (!missing_function)
        return 0;
    err_set(err, -ENODEV, "this NVML lacks %s", missing_function);
    err_advise(err, "update the NVIDIA driver");
    return -ENODEV;
}

int nvml_open(struct nvml **ret_nvml, struct err *err)
{
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml)
        return err_set(err, -ENOMEM, "out of memory for NVML");
    int status = load(nvml, err);
    if (!status) {
        int code = nvml->init();
        if (code != NVML_SUCCESS) {
            status = nvml_error(nvml, code, -ENODEV, "start", err);
            err_advise(err, "load the NVIDIA driver; nvidia-smi uses the same library");
        }
    }
    if (status) {
        free(nvml);
        return status;
    }
    *ret_nvml = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    free(nvml);
}

int nvml_driver_version(struct nvml *nvml, char text[NVML_TEXT_BYTES], struct err *err)
{
    int code = nvml->system_get_driver_version(text, NVML_TEXT_BYTES);
    return code == NVML_SUCCESS ? 0 : nvml_error(nvml, code, -EIO, "get the driver version", err);
}

int nvml_find(struct nvml *nvml, const char *bus, struct nvmlDevice_st **ret_gpu, struct err *err)
{
    int code = nvml->device_get_handle_by_pci_bus_id(bus, ret_gpu);
    return code == NVML_SUCCESS ? 0 : nvml_error(nvml, code, -ENODEV, "find the GPU", err);
}

int nvml_utilization(struct nvml *nvml, struct nvmlDevice_st *gpu, double *ret_fraction,
                     struct err *err)
{
    struct nvml_utilization_rates rates = {0};
    int code = nvml->device_get_utilization_rates(gpu, &rates);
    if (code != NVML_SUCCESS)
        return nvml_error(nvml, code, code == NVML_ERROR_NOT_SUPPORTED ? -ENOTSUP : -EIO,
                          "get the utilization", err);
    *ret_fraction = rates.gpu / 100.0;
    return 0;
}
