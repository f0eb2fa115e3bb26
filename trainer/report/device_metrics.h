/*
 * device_metrics — memory, utilization and relative compute rate of the device, for progress lines.
 *
 * Read when a line is written, never within a step. Unavailable values are not errors.
 */
#ifndef MILLRACE_TRAINER_REPORT_DEVICE_METRICS_H
#define MILLRACE_TRAINER_REPORT_DEVICE_METRICS_H

#include "device/nvml.h"
#include "trainer/ops/ops.h"
#include "trainer/report/report.h"

struct device_metrics {
    struct device *device; /* borrowed */
    double peak_flops;     /* for the element type of matrix products; 0: unknown */
    struct nvml *nvml;     /* NULL: unavailable */
    struct nvmlDevice_st *gpu;
};

void device_metrics_open(struct device_metrics *metrics, const struct ops *ops);
void device_metrics_close(struct device_metrics *metrics); /* safe on a zeroed struct */
/* flops_per_second: of the model's matrix products on this device. */
struct trainer_device_metrics device_metrics_read(const struct device_metrics *metrics,
                                                  double flops_per_second);

#endif
