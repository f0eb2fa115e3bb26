/*
 * fiber — see fiber.h. Compiled without ThreadSanitizer's instrumentation, which would report false
 * races between two stacks.
 */
#include "tests/cuda_on_cpu/fiber.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SHIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { GUARD_BYTES = 4096 };

/* Pushes the callee-saved registers, switches to the other stack, and pops them from there. */
void fiber_swap_stacks(void **ret_stack_pointer, void *stack_pointer);
__asm__(".text\n"
        ".type fiber_swap_stacks, @function\n"
        "fiber_swap_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_swap_stacks, . - fiber_swap_stacks\n");

enum { SAVED_REGISTERS = 6 };

static struct fiber *entered; /* the fiber being entered for the first time */

static void fiber_begin(void)
{
    struct fiber *fiber = entered;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    fiber->main(fiber->argument);
    abort();
}

void fiber_adopt(struct fiber *fiber)
{
    pthread_attr_t attributes;
    *fiber = (struct fiber){0};
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &fiber->stack, &fiber->stack_bytes);
        pthread_attr_destroy(&attributes);
    }
#ifdef SHIM_TSAN
    fiber->tsan_fiber = __tsan_get_current_fiber();
#endif
}

void fiber_open(struct fiber *fiber, void (*main)(void *argument), void *argument)
{
    char *all = mmap(NULL, GUARD_BYTES + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all, GUARD_BYTES, PROT_NONE)) {
        fprintf(stderr, "cuda_on_cpu: no memory for the stacks of a block's threads\n");
        abort();
    }
    *fiber = (struct fiber){.stack = all + GUARD_BYTES,
                            .stack_bytes = FIBER_STACK_BYTES,
                            .main = main,
                            .argument = argument};
    /* laid out like a stack that fiber_swap_stacks has left: the saved registers, the return
     * address, and above it the 8 bytes that a call would have pushed, so that the entry function
     * finds the alignment that it expects */
    void **top = (void **)(all + GUARD_BYTES + FIBER_STACK_BYTES);
    top[-2] = (void *)(uintptr_t)fiber_begin;
    fiber->stack_pointer = &top[-2 - SAVED_REGISTERS];
#ifdef SHIM_TSAN
    fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    entered = to;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->asan_stack, to->stack, to->stack_bytes);
#endif
#ifdef SHIM_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
    fiber_swap_stacks(&from->stack_pointer, to->stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from->asan_stack, NULL, NULL);
#endif
}
