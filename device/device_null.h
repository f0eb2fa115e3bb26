/*
 * device_null — null devices: imitating a cpu, kinds of addresses, host-device traffic.
 */
#ifndef MILLRACE_DEVICE_DEVICE_NULL_H
#define MILLRACE_DEVICE_DEVICE_NULL_H

#include "device/device.h"

/* is_host is set, to count a `cpu` device's requests. */
int device_null_open_host(struct device **ret_device, struct err *err);
/* memory: an address from a null device. */
enum mem_kind device_null_kind(const void *memory);
/* Bytes copied between host and device memory since open; 0 if the two are one. Kernels that read
 * or write across the link call device_null_add_transfer. */
uint64_t device_null_transfer_bytes(const struct device *device);
void device_null_add_transfer(struct device *device, uint64_t bytes);

#endif
