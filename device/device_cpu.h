/*
 * device_cpu — the CPU device's table, for devices that share some of its operations.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CPU_H
#define MILLRACE_DEVICE_DEVICE_CPU_H

#include "device/device.h"

/* Streams, events and close (which frees the device) suit every device that completes work
 * immediately. */
extern const struct device_ops device_cpu_ops;

#endif
