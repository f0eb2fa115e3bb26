/*
 * order — the orders that a test tries: of a block's threads, of a grid's blocks, of what streams
 * have queued.
 *
 *     for (size_t order = 0; order < order_count(); order++) {
 *         order_set(order);
 *         // run, compare with the reference, and from the second on with the bits of the first
 *     }
 *
 * On the CPU: 0 is forward with streams at once, 1 is reverse with streams as late as may be, where
 * also the host's touching device memory is a fault; then come orders by seed. On a GPU there is
 * only the device's own order, twice, so that the same test compares two runs. MR_CUDA_SEED is the
 * first seed; each is printed.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_ORDER_H
#define MILLRACE_TESTS_CUDA_ON_CPU_ORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t order_count(void);

/* Nothing may be queued. Before the first call it is order 0. */
void order_set(size_t order);

#ifdef __cplusplus
}
#endif

#endif
