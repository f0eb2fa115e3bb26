/*
 * fiber — a stack of its own and a switch to it, some ten instructions; each thread of a CUDA block
 * is one.
 *
 *     fiber_adopt(&caller);
 *     fiber_open(&fiber, main, argument);
 *     fiber_switch(&caller, &fiber);       runs main(argument) until it switches back
 *
 * The sanitizers are told of every switch. ThreadSanitizer takes each fiber for a thread and a
 * switch for no synchronisation at all: what orders two fibers is what they say themselves
 * (block.c). x86-64 only.
 *
 * Threads: fibers belong to the system thread that adopted their caller.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_FIBER_H
#define MILLRACE_TESTS_CUDA_ON_CPU_FIBER_H

#include <stddef.h>

enum { FIBER_STACK_BYTES = 256 << 10 };

struct fiber {
    void *stack_pointer; /* where it stopped */
    void *stack;         /* lowest address; below it lies a page that faults */
    size_t stack_bytes;
    void (*main)(void *argument);
    void *argument;
    void *asan_stack; /* AddressSanitizer's, while the fiber is away */
    void *tsan_fiber; /* ThreadSanitizer's */
};

/* The running system thread as a fiber, to come back to. */
void fiber_adopt(struct fiber *fiber);

/* A fiber that will run main(argument) when it is first switched to; main never returns. Ends the
 * program where there is no memory. */
void fiber_open(struct fiber *fiber, void (*main)(void *argument), void *argument);

/* Leaves `from`, which is running, for `to`. Returns when somebody switches to `from`. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
