/*
 * ops_open — see ops.h.
 */
#include "trainer/ops/ops.h"

#include "trainer/ops/cuda/ops_cuda.h"

#include <string.h>

int ops_open(struct device *device, enum dtype compute, unsigned threads, struct ops **ret_ops,
             struct err *err)
{
    if (strcmp(device->ops->name, "cuda") == 0)
        return ops_cuda_open(device, compute, ret_ops, err);
    return ops_cpu_open(device, compute, threads, ret_ops, err);
}

void ops_close(struct ops *ops)
{
    if (ops)
        ops->table->close(ops);
}
