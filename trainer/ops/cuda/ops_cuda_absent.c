/*
 * ops_cuda_absent — ops_cuda.h in a build without CUDA.
 */
#include "trainer/ops/cuda/ops_cuda.h"
#include "trainer/ops/null/ops_null.h"

#include <errno.h>

int ops_cuda_open(struct device *device, enum dtype compute, struct ops **ret_ops, struct err *err)
{
    (void)device, (void)compute, (void)ret_ops;
    return err_set(err, -ENODEV, "this build has no CUDA");
}

const struct ops_null_model *ops_null_cuda(void)
{
    return NULL;
}
