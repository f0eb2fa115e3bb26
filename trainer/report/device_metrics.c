/*
 * device_metrics — see device_metrics.h.
 */
#include "trainer/report/device_metrics.h"

#include "base/os/machine.h"
#include "device/device_cuda.h"
#include "device/peak.h"

#include <string.h>

static bool is_cuda(const struct device *device)
{
    return strcmp(device->ops->name, "cuda") == 0;
}

void device_metrics_open(struct device_metrics *metrics, const struct ops *ops)
{
    *metrics = (struct device_metrics){.device = ops->device};
    if (!is_cuda(ops->device))
        return;
    const struct device_cuda_info *info = device_cuda_info(ops->device);
    metrics->peak_flops = peak_flops(info, ops->compute);
    if (nvml_open(&metrics->nvml, NULL) == 0 &&
        nvml_find(metrics->nvml, info->bus, &metrics->gpu, NULL)) {
        nvml_close(metrics->nvml);
        metrics->nvml = NULL;
    }
}

void device_metrics_close(struct device_metrics *metrics)
{
    nvml_close(metrics->nvml);
    *metrics = (struct device_metrics){0};
}

struct trainer_device_metrics device_metrics_read(const struct device_metrics *metrics,
                                                  double flops_per_second)
{
    struct trainer_device_metrics values = {.flops_per_second = flops_per_second,
                                            .utilization_share = -1,
                                            .process_bytes = machine_process_bytes()};
    if (metrics->peak_flops > 0)
        values.peak_share = flops_per_second / metrics->peak_flops;
    if (metrics->nvml)
        nvml_utilization(metrics->nvml, metrics->gpu, &values.utilization_share, NULL);
    if (!metrics->device->ops->is_host) {
        struct device_mem_info info;
        metrics->device->ops->mem_info(metrics->device, &info);
        values.device_used_bytes = info.used_bytes[MEM_DEVICE];
        values.device_taken_bytes = info.total_bytes - info.free_bytes;
    }
    return values;
}
