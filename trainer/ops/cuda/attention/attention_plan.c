/*
 * attention_plan — checks that the device supports a shape; see attention.h.
 */
#include "device/device_cuda.h"
#include "trainer/ops/cuda/attention/attention.h"
#include "trainer/ops/ops.h"

#include <errno.h>
#include <inttypes.h>

/* Rejects a head that the kernels support but the device's shared memory does not. */
static int reject_head_dim(const struct ops *ops, const struct attn_shape *shape, struct err *err)
{
    const struct device_cuda_info *info = device_cuda_info(ops->device);
    cudaGetLastError(); /* clear the error */
    err_set(err, -EINVAL,
            "attention of head dimension %" PRIu64 " needs more shared memory than %s has",
            shape->head_dim, info->name);
    err_found(err, "%" PRIu64 " bytes per block", info->shared_bytes_max);
    err_advise(err, "choose more and narrower heads%s",
               ops->compute == DTYPE_F32 ? "" : ", or precision.compute: fp32");
    return -EINVAL;
}

int cuda_attention_plan(const struct ops *ops, const struct attn_shape *shape, struct err *err)
{
    if (!cuda_attention_supports(ops->compute, shape)) {
        err_set(err, -EINVAL,
                "cannot compute attention of %" PRIu64 " tokens, %" PRIu64 " heads, %" PRIu64
                " key-value heads, head dimension %" PRIu64 " on a GPU",
                shape->tokens, shape->heads, shape->kv_heads, shape->head_dim);
        err_expected(err, "a head dimension of at most 256, a multiple of 8 in %s",
                     dtype_name(ops->compute));
        return -EINVAL;
    }
    cudaError_t code = cuda_attention_prepare(ops->compute, shape);
    if (code == cudaErrorInvalidValue)
        return reject_head_dim(ops, shape, err);
    return device_cuda_status(ops->device, (int)code, "attention", err);
}
