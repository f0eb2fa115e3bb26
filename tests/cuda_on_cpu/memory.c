/*
 * memory — see memory.h.
 */
#include "tests/cuda_on_cpu/memory.h"

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/violation.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)   ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)0)
#endif

enum {
    PAGE_BYTES = 4096,
    UNWRITTEN = 0xff, /* a NaN in every floating type */
    TAIL_BYTE = 0xc5,
    ALLOCATIONS_MAX = 65536,
};
#define TOTAL_BYTES_DEFAULT ((size_t)4 << 30)

/* The pages of an allocation, followed by one that faults: |....... memory | tail | guard | */
struct allocation {
    char *pages;
    size_t pages_bytes; /* without the guard page */
    char *memory;
    size_t bytes;
    enum memory_kind kind;
};

/* Guarded by lock; live allocations, in no order. */
static struct {
    pthread_mutex_t lock;
    struct allocation allocations[ALLOCATIONS_MAX];
    size_t count, device_bytes, total_bytes;
    int open_depth; /* of memory_open */
    bool is_watched;
} allocated = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .total_bytes = TOTAL_BYTES_DEFAULT, .is_watched = true};

static char *end_of(const struct allocation *a)
{
    return a->memory + a->bytes;
}

static size_t tail_bytes(const struct allocation *a)
{
    return (size_t)(a->pages + a->pages_bytes - end_of(a));
}

static void set_access(const struct allocation *a, bool open)
{
    if (a->kind == MEMORY_DEVICE &&
        mprotect(a->pages, a->pages_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE))
        shim_violation("mprotect failed: too many allocations");
}

void shim_set_memory(size_t total_bytes)
{
    pthread_mutex_lock(&allocated.lock);
    allocated.total_bytes = total_bytes;
    pthread_mutex_unlock(&allocated.lock);
}

static void *allocate(enum memory_kind kind, size_t bytes)
{
    if (allocated.count == ALLOCATIONS_MAX || bytes > SIZE_MAX / 2 ||
        (kind == MEMORY_DEVICE && bytes > allocated.total_bytes - allocated.device_bytes))
        return NULL;
    size_t aligned = (bytes + MEMORY_ALIGN_BYTES - 1) / MEMORY_ALIGN_BYTES * MEMORY_ALIGN_BYTES;
    size_t pages_bytes = (aligned + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    char *pages = mmap(NULL, pages_bytes + PAGE_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    mprotect(pages, pages_bytes, PROT_READ | PROT_WRITE);
    struct allocation *a = &allocated.allocations[allocated.count++];
    /* pinned memory begins at a page, as in CUDA; device memory begins at any multiple of 256 */
    char *memory = kind == MEMORY_DEVICE ? pages + pages_bytes - aligned : pages;
    *a = (struct allocation){pages, pages_bytes, memory, bytes, kind};
    memset(pages, TAIL_BYTE, (size_t)(memory - pages));
    memset(memory, UNWRITTEN, bytes);
    memset(end_of(a), TAIL_BYTE, tail_bytes(a));
    ASAN_POISON_MEMORY_REGION(end_of(a), tail_bytes(a));
    if (kind == MEMORY_DEVICE)
        allocated.device_bytes += bytes;
    if (allocated.open_depth == 0 && allocated.is_watched)
        set_access(a, false);
    return memory;
}

void *memory_alloc(enum memory_kind kind, size_t bytes)
{
    pthread_mutex_lock(&allocated.lock);
    void *memory = allocate(kind, bytes);
    pthread_mutex_unlock(&allocated.lock);
    return memory;
}

static void check_tail(const struct allocation *a)
{
    ASAN_UNPOISON_MEMORY_REGION(end_of(a), tail_bytes(a));
    for (const char *at = end_of(a); at < a->pages + a->pages_bytes; at++)
        if (*(const unsigned char *)at != TAIL_BYTE)
            shim_violation("something wrote %zu bytes past the end of an allocation of %zu bytes",
                           (size_t)(at - end_of(a)) + 1, a->bytes);
    ASAN_POISON_MEMORY_REGION(end_of(a), tail_bytes(a));
}

bool memory_free(enum memory_kind kind, void *memory)
{
    bool found = false;
    pthread_mutex_lock(&allocated.lock);
    for (size_t i = 0; i < allocated.count && !found; i++) {
        struct allocation a = allocated.allocations[i];
        if (a.memory != memory || a.kind != kind)
            continue;
        found = true;
        set_access(&a, true);
        check_tail(&a);
        ASAN_UNPOISON_MEMORY_REGION(a.pages, a.pages_bytes);
        /* releases the pages but keeps the addresses, so that they are not reused */
        if (mmap(a.pages, a.pages_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            shim_violation("mmap failed");
        if (kind == MEMORY_DEVICE)
            allocated.device_bytes -= a.bytes;
        allocated.allocations[i] = allocated.allocations[--allocated.count];
    }
    pthread_mutex_unlock(&allocated.lock);
    return found;
}

enum memory_kind memory_kind_of(const void *memory, size_t bytes, const char *what)
{
    enum memory_kind kind = MEMORY_PAGEABLE;
    const char *at = memory;
    pthread_mutex_lock(&allocated.lock);
    for (size_t i = 0; i < allocated.count; i++) {
        const struct allocation *a = &allocated.allocations[i];
        if (at < a->pages || at > a->pages + a->pages_bytes)
            continue;
        if (at < a->memory || at > end_of(a) || bytes > (size_t)(end_of(a) - at))
            shim_violation("%s: %zu bytes from byte %td of an allocation of %zu bytes", what, bytes,
                           at - a->memory, a->bytes);
        kind = a->kind;
        break;
    }
    pthread_mutex_unlock(&allocated.lock);
    return kind;
}

static void set_access_to_all(bool open)
{
    for (size_t i = 0; i < allocated.count; i++) {
        if (!open)
            check_tail(&allocated.allocations[i]);
        set_access(&allocated.allocations[i], open);
    }
}

void memory_watch(bool is_watched)
{
    pthread_mutex_lock(&allocated.lock);
    if (is_watched != allocated.is_watched)
        set_access_to_all(!is_watched);
    allocated.is_watched = is_watched;
    pthread_mutex_unlock(&allocated.lock);
}

void memory_open(void)
{
    pthread_mutex_lock(&allocated.lock);
    if (allocated.open_depth++ == 0 && allocated.is_watched)
        set_access_to_all(true);
    pthread_mutex_unlock(&allocated.lock);
}

void memory_close(void)
{
    pthread_mutex_lock(&allocated.lock);
    if (--allocated.open_depth == 0 && allocated.is_watched)
        set_access_to_all(false);
    pthread_mutex_unlock(&allocated.lock);
}

void memory_info(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    pthread_mutex_lock(&allocated.lock);
    *ret_free_bytes = allocated.total_bytes - allocated.device_bytes;
    *ret_total_bytes = allocated.total_bytes;
    pthread_mutex_unlock(&allocated.lock);
}
