/*
 * device_null — more about null devices: one that imitates a cpu, the memory kind of an address,
 * and the traffic between host and device.
 */
#ifndef MILLRACE_DEVICE_DEVICE_NULL_H
#define MILLRACE_DEVICE_DEVICE_NULL_H

#include "device/device.h"

/* Opens a null device with is_host set, to count what would be requested of a `cpu`. */
int device_null_open_host(struct device **ret_device, struct err *err);
/* The kind of an address allocated by a null device. */
enum mem_kind device_null_kind(const void *memory);
/* Bytes copied between host memory and the device's own since open; 0 if the two are one. Kernels
 * that read or write across the link add their bytes by device_null_add_transfer. */
uint64_t device_null_transfer_bytes(const struct device *device);
void device_null_add_transfer(struct device *device, uint64_t bytes);

#endif
