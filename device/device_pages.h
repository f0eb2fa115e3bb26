/*
 * device_pages — host memory in whole pages: zeroed, aligned to DEVICE_MEM_ALIGN_BYTES, backed by
 * the kernel once touched. Internal to device/.
 */
#ifndef MILLRACE_DEVICE_DEVICE_PAGES_H
#define MILLRACE_DEVICE_DEVICE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* huge: in huge pages if the kernel offers them. NULL if there is not enough memory. */
void *pages_map(bool huge, size_t bytes);
void pages_unmap(void *memory, size_t bytes);

#endif
