/*
 * allocations — see allocations.h.
 */
#include "tests/support/allocations.h"

#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdlib.h>

#ifdef MR_SANITIZED

size_t allocations_own_count(void)
{
    test_skip("a sanitizer replaces malloc");
}

size_t allocations_others(void)
{
    test_skip("a sanitizer replaces malloc");
}

#else

extern char __executable_start, etext; /* defined by the linker */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_size_t ours, others;

static void count_call(const void *caller)
{
    const char *at = caller;
    bool is_ours = at >= &__executable_start && at < &etext;
    atomic_fetch_add_explicit(is_ours ? &ours : &others, 1, memory_order_relaxed);
}

size_t allocations_own_count(void)
{
    return atomic_load(&ours);
}

size_t allocations_others(void)
{
    return atomic_load(&others);
}

void *malloc(size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

#endif
