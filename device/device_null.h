/*
 * device_null — what else null devices are and tell: the one that stands for a cpu, of which kind
 * an address is, and what went between the host and the device.
 */
#ifndef MILLRACE_DEVICE_DEVICE_NULL_H
#define MILLRACE_DEVICE_DEVICE_NULL_H

#include "device/device.h"

/* A null device that says of itself that device memory is the host's: it counts what would be asked
 * of a `cpu`. */
int device_null_open_host(struct device **ret_device, struct err *err);
/* Of an address that a null device gave. */
enum mem_kind device_null_kind(const void *memory);
/* Bytes that were copied from the host's memory to the device's own or back, since it was opened; 0
 * where the two are one. What else of a kernel's reads and writes crosses the link is its to
 * add. */
uint64_t device_null_crossed_bytes(const struct device *device);
void device_null_cross(struct device *device, uint64_t bytes);

#endif
