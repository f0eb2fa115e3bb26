/*
 * memory — the device's memory and pinned memory, each allocation between pages that fault.
 *
 * Device memory ends at its last byte as nearly as the 256 bytes of alignment allow, begins filled
 * with NaN, and faults whenever the host touches it: it is open only while queued work runs.
 * Opening and closing costs system calls, so that is so only where memory is watched
 * (memory_watch). Freed memory faults for ever. Bytes behind the last are checked when it is freed
 * and, where it is watched, whenever work is waited for; AddressSanitizer sees them at once.
 *
 * Threads: any; one lock inside.
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

/* NULL where the device has not so much left, or the system. */
void *memory_alloc(enum memory_kind kind, size_t bytes);

/* False where memory is not the beginning of an allocation of that kind. */
bool memory_free(enum memory_kind kind, void *memory);

/* Whose bytes these are. What begins in an allocation and leaves it is a violation; `what` says who
 * asks. */
enum memory_kind memory_kind_of(const void *memory, size_t bytes, const char *what);

/* Whether the host's touching device memory is a fault; at first it is. Nothing is queued. */
void memory_watch(bool watched);

/* Lets device memory be touched, or no longer. Calls nest. */
void memory_open(void);
void memory_close(void);

void memory_info(size_t *ret_free_bytes, size_t *ret_total_bytes);

#ifdef __cplusplus
}
#endif

#endif
