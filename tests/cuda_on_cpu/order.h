/*
 * order — the orders that a test tries: of a block's threads, of a grid's blocks, and of work
 * queued on different streams.
 *
 *     for (size_t order = 0; order < order_count(); order++) {
 *         order_set(order);
 *         // run; compare with the reference and, from order 1 on, with the bits of order 0
 *     }
 *
 * On the CPU, order 0 is forward with streams run at once. Order 1 is reverse with streams run as
 * late as possible; in it, host access to device memory also faults. Further orders are random,
 * each from a seed. On a GPU, the device's own order is the only one, tried twice, so that the same
 * test compares two runs. MR_CUDA_SEED is the first seed; each seed is printed.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_ORDER_H
#define MILLRACE_TESTS_CUDA_ON_CPU_ORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t order_count(void);

/* No work may be queued. Before the first call, order 0 is in force. */
void order_set(size_t order);

#ifdef __cplusplus
}
#endif

#endif
