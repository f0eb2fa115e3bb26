/*
 * contract — test cases that every backend of device.h must pass; each takes the backend's name.
 */
#ifndef MILLRACE_TESTS_DEVICE_CONTRACT_H
#define MILLRACE_TESTS_DEVICE_CONTRACT_H

#include "device/device.h"

/* Both fail the running test on errors. */
struct device *contract_open(const char *name);
void *contract_allocate(struct device *device, enum mem_kind kind, size_t bytes);

void contract_memory_and_its_peak_are_counted_by_kind(const char *name);
void contract_allocations_are_aligned_and_disjoint(const char *name);
void contract_refused_allocations_are_not_counted(const char *name);
void contract_threads_share_a_device(const char *name);

/* Not for `null`, which allocates nothing. */
void contract_memory_is_zeroed_and_writable(const char *name);
void contract_copies_are_complete_after_their_event(const char *name);

#endif
