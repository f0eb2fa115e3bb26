/*
 * fiber — a separate stack and a switch to it in about ten instructions; each thread of a CUDA
 * block is a fiber.
 *
 *     fiber_adopt(&caller);
 *     fiber_open(&fiber, main, argument);
 *     fiber_switch(&caller, &fiber);       runs main(argument) until it switches back
 *
 * The sanitizers are notified of every switch. ThreadSanitizer treats each fiber as a thread, and
 * does not treat a switch as synchronization: block.c annotates what orders two fibers. x86-64
 * only.
 *
 * Fibers belong to the system thread that adopted their caller.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_FIBER_H
#define MILLRACE_TESTS_CUDA_ON_CPU_FIBER_H

#include <stddef.h>

enum { FIBER_STACK_BYTES = 256 << 10 };

struct fiber {
    void *stack_pointer; /* where the fiber stopped */
    void *stack;         /* lowest address; the page below it faults */
    size_t stack_bytes;
    void (*main)(void *argument);
    void *argument;
    void *asan_stack; /* AddressSanitizer's state while the fiber is suspended */
    void *tsan_fiber; /* ThreadSanitizer's handle */
};

/* Makes the running system thread a fiber that others can switch back to. */
void fiber_adopt(struct fiber *fiber);

/* Opens a fiber that runs main(argument) when first switched to; main never returns. Ends the
 * program if memory runs out. */
void fiber_open(struct fiber *fiber, void (*main)(void *argument), void *argument);

/* Switches from the running fiber `from` to `to`. Returns when a fiber switches back to `from`. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
