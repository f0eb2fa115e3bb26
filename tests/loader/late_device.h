/*
 * late_device — a CPU device whose events are done only when the test says so, like those of a GPU
 * that is still copying.
 *
 *     late_device_open(&device);
 *     gate_shut(&late_device_gate);        // from now on, waiting for an event blocks
 *     ... gate_wait_for_threads(&late_device_gate, 1); ... gate_open(&late_device_gate);
 *     device_close(device);
 *
 * One device at a time.
 */
#ifndef MILLRACE_TESTS_LOADER_LATE_DEVICE_H
#define MILLRACE_TESTS_LOADER_LATE_DEVICE_H

#include "device/device.h"
#include "tests/support/gate.h"

#include <stdatomic.h>

extern struct gate late_device_gate;
/* Calls of the device's operations since late_device_open. */
extern atomic_int late_device_opened_events, late_device_recorded_events,
    late_device_ordered_streams;

void late_device_open(struct device **ret_device);
/* Returns the bytes of all kinds of memory that are allocated. */
uint64_t late_device_used_bytes(struct device *device);

#endif
