/*
 * device_null — queries of null devices, and null devices that imitate a CPU.
 */
#ifndef MILLRACE_DEVICE_DEVICE_NULL_H
#define MILLRACE_DEVICE_DEVICE_NULL_H

#include "device/device.h"

/* Opens a null device with is_host set, to count the requests that a `cpu` device would get. */
int device_null_open_host(struct device **ret_device, struct err *err);
/* memory: an address from a null device. */
enum mem_kind device_null_kind(const void *memory);
/* Bytes copied between host and device memory since open; 0 if they are the same memory. Kernels
 * that read or write across the link call device_null_add_transfer. */
uint64_t device_null_transfer_bytes(const struct device *device);
void device_null_add_transfer(struct device *device, uint64_t bytes);

#endif
