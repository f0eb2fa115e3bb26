/*
 * device_cpu — the table of the CPU device, for devices that share some of its operations.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CPU_H
#define MILLRACE_DEVICE_DEVICE_CPU_H

#include "device/device.h"

/* Its streams and events, and close, which frees the device, suit every device whose work completes
 * at once. */
extern const struct device_ops device_cpu_ops;

#endif
