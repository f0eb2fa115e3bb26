/*
 * gauges — what of the machine stands beside a line of progress: memory, how busy the device is,
 * and how near its peak it computes.
 *
 * They are read when a line is written, never within a step. What can't be known here is unknown,
 * and no error.
 */
#ifndef MILLRACE_TRAINER_REPORT_GAUGES_H
#define MILLRACE_TRAINER_REPORT_GAUGES_H

#include "device/nvml.h"
#include "trainer/ops/ops.h"
#include "trainer/trainer.h"

/* Owner thread. */
struct gauges {
    struct device *device; /* borrowed */
    double peak_flops;     /* of the device in the type of products; 0: unknown */
    struct nvml *nvml;     /* NULL: absent */
    struct nvmlDevice_st *gpu;
};

void gauges_open(struct gauges *gauges, const struct ops *ops);
void gauges_close(struct gauges *gauges); /* safe on zeroed ones */
/* flops_per_second: of the model's products, on this device. */
struct trainer_gauges gauges_read(const struct gauges *gauges, double flops_per_second);

#endif
