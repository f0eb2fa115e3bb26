/*
 * gauges — see gauges.h.
 */
#include "trainer/report/gauges.h"

#include "base/machine.h"
#include "device/device_cuda.h"
#include "device/peak.h"

#include <string.h>

static bool is_cuda(const struct device *device)
{
    return strcmp(device->ops->name, "cuda") == 0;
}

void gauges_open(struct gauges *gauges, const struct ops *ops)
{
    *gauges = (struct gauges){.device = ops->device};
    if (!is_cuda(ops->device))
        return;
    const struct device_cuda_info *info = device_cuda_info(ops->device);
    gauges->peak_flops = peak_flops(info, ops->compute);
    if (nvml_open(&gauges->nvml, NULL) == 0 &&
        nvml_find(gauges->nvml, info->bus, &gauges->gpu, NULL)) {
        nvml_close(gauges->nvml);
        gauges->nvml = NULL;
    }
}

void gauges_close(struct gauges *gauges)
{
    nvml_close(gauges->nvml);
    *gauges = (struct gauges){0};
}

struct trainer_gauges gauges_read(const struct gauges *gauges, double flops_per_second)
{
    struct trainer_gauges values = {.flops_per_second = flops_per_second,
                                    .utilization_share = -1,
                                    .process_bytes = machine_process_bytes()};
    if (gauges->peak_flops > 0)
        values.peak_share = flops_per_second / gauges->peak_flops;
    if (gauges->nvml)
        nvml_utilization(gauges->nvml, gauges->gpu, &values.utilization_share, NULL);
    if (!gauges->device->ops->is_host) {
        struct device_mem_info info;
        gauges->device->ops->mem_info(gauges->device, &info);
        values.device_used_bytes = info.used_bytes[MEM_DEVICE];
        values.device_taken_bytes = info.total_bytes - info.free_bytes;
    }
    return values;
}
