/*
 * device_pages — see device_pages.h.
 */
#include "device/device_pages.h"

#include "base/bytes.h"
#include "device/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };
#define BYTES_MAX (SIZE_MAX / 4) /* per allocation, so that rounding cannot overflow */

/* ThreadSanitizer detects neither, and would record a write to each byte. */
#if defined MR_SANITIZED && !defined __SANITIZE_THREAD__
/* The sanitizers' allocators end the program if they cannot satisfy a request. */
#define SANITIZED_BYTES_MAX ((size_t)1 << 36)

/* Uses the heap, where sanitizers detect overruns and leaks. */
void *pages_map(bool use_huge_pages, size_t bytes)
{
    (void)use_huge_pages;
    if (bytes > SANITIZED_BYTES_MAX)
        return NULL;
    void *memory;
    return posix_memalign(&memory, DEVICE_MEM_ALIGN_BYTES, bytes) ? NULL : memset(memory, 0, bytes);
}

void pages_unmap(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}
#else
void *pages_map(bool use_huge_pages, size_t bytes)
{
    if (bytes > BYTES_MAX)
        return NULL;
    bytes = bytes_round_up(bytes, DEVICE_MEM_ALIGN_BYTES);
    /* Huge pages start at multiples of their size: map more, and unmap the excess. */
    size_t spare = use_huge_pages && bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *all =
        mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    if (spare == 0)
        return all;
    size_t before = bytes_round_up((uintptr_t)all, HUGE_PAGE_BYTES) - (uintptr_t)all;
    if (before > 0)
        munmap(all, before);
    if (before < spare)
        munmap(all + before + bytes, spare - before);
    /* a hint; if it is rejected, the memory uses regular pages */
    madvise(all + before, bytes, MADV_HUGEPAGE);
    return all + before;
}

void pages_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes_round_up(bytes, DEVICE_MEM_ALIGN_BYTES));
}
#endif
