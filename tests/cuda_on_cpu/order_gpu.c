/*
 * order_gpu — order.h on a GPU: the device chooses its own order, and a test runs twice to compare
 * the results.
 */
#include "tests/cuda_on_cpu/order.h"

enum { RUNS = 2 };

size_t order_count(void)
{
    return RUNS;
}

void order_set(size_t order)
{
    (void)order;
}
