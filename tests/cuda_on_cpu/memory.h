/*
 * memory — device memory and pinned memory, with each allocation between pages that fault.
 *
 * Device memory ends as close to a faulting page as its 256-byte alignment allows, starts filled
 * with NaN, and faults when the host touches it: it is accessible only while queued work runs.
 * Changing access costs system calls, so this is done only while memory is watched (memory_watch).
 * Freed memory faults forever. The bytes after an allocation are checked when it is freed and,
 * while memory is watched, at every wait for work; AddressSanitizer detects writes to them at once.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_MEMORY_H
#define MILLRACE_TESTS_CUDA_ON_CPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum memory_kind { MEMORY_PAGEABLE, MEMORY_PINNED, MEMORY_DEVICE };

enum { MEMORY_ALIGN_BYTES = 256 };

/* Returns NULL if the device or the system does not have enough memory left. */
void *memory_alloc(enum memory_kind kind, size_t bytes);

/* Returns false if memory is not the start of an allocation of that kind. */
bool memory_free(enum memory_kind kind, void *memory);

/* The kind of memory that holds these bytes. A range that starts in an allocation and ends outside
 * it is a violation; `what` names the range in the message. */
enum memory_kind memory_kind_of(const void *memory, size_t bytes, const char *what);

/* Sets whether a host access to device memory faults; initially it does. No work may be queued. */
void memory_watch(bool is_watched);

/* Allow and forbid access to device memory. Calls may be nested. */
void memory_open(void);
void memory_close(void);

void memory_info(size_t *ret_free_bytes, size_t *ret_total_bytes);

#ifdef __cplusplus
}
#endif

#endif
