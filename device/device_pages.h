/*
 * device_pages — the host's memory by whole pages: zeroed, aligned to DEVICE_MEM_ALIGN_BYTES,
 * counted by the kernel only once it is touched. Internal to device/.
 */
#ifndef MILLRACE_DEVICE_DEVICE_PAGES_H
#define MILLRACE_DEVICE_DEVICE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* huge: in huge pages where the kernel offers them. NULL where there is not so much. */
void *pages_map(bool huge, size_t bytes);
void pages_unmap(void *memory, size_t bytes);

#endif
