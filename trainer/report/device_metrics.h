/*
 * device_metrics — what of the machine stands beside a line of progress: memory, how busy the
 * device is, and how near its peak it computes.
 *
 * They are read when a line is written, never within a step. What can't be known here is unknown,
 * and no error.
 */
#ifndef MILLRACE_TRAINER_REPORT_DEVICE_METRICS_H
#define MILLRACE_TRAINER_REPORT_DEVICE_METRICS_H

#include "device/nvml.h"
#include "trainer/ops/ops.h"
#include "trainer/report/report.h"

/* Owner thread. */
struct device_metrics {
    struct device *device; /* borrowed */
    double peak_flops;     /* of the device in the type of products; 0: unknown */
    struct nvml *nvml;     /* NULL: absent */
    struct nvmlDevice_st *gpu;
};

void device_metrics_open(struct device_metrics *metrics, const struct ops *ops);
void device_metrics_close(struct device_metrics *metrics); /* safe on zeroed ones */
/* flops_per_second: of the model's products, on this device. */
struct trainer_device_metrics device_metrics_read(const struct device_metrics *metrics,
                                                  double flops_per_second);

#endif
