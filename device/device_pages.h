/*
 * device_pages — host memory in whole pages: zeroed, aligned to DEVICE_MEM_ALIGN_BYTES, backed by
 * the kernel once touched. Internal to device/.
 */
#ifndef MILLRACE_DEVICE_DEVICE_PAGES_H
#define MILLRACE_DEVICE_DEVICE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Uses huge pages only if the kernel offers them. Returns NULL if out of memory. */
void *pages_map(bool use_huge_pages, size_t bytes);
void pages_unmap(void *memory, size_t bytes);

#endif
