/*
 * ops_null — a compute table that computes nothing: it counts the floating-point operations it is
 * asked for, and takes the memory that the backend it stands for would take. On a null device
 * (device.h) a whole run can be simulated on it.
 */
#ifndef MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H
#define MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H

#include "trainer/ops/ops.h"

/* What of a backend decides how much memory a model takes. Sizes are 0 where a hook is NULL.
 * Immutable. */
struct ops_null_model {
    bool is_host; /* of its devices, see device.h */
    bool embed_bwd_wants_order;
    uint32_t logits_align;
    uint64_t fixed_bytes; /* taken when it opens */
    /* Reserved when planned; of the first two one piece each, of the largest that was asked for. */
    uint64_t (*gemm_bytes)(const struct gemm_shape *shape);
    uint64_t (*rows_bytes)(uint64_t rows, uint64_t cols);
    uint64_t (*rope_bytes)(const struct attn_shape *shape);
    uint64_t (*attn_bwd_scratch)(const struct attn_shape *shape); /* elements, as ops.h has it */
};

/* That of the cpu; that of a GPU, NULL in a build without one. */
const struct ops_null_model *ops_null_cpu(void);
const struct ops_null_model *ops_null_cuda(void);

/* Opens the null device that suits the model, too. Gives both. */
int ops_null_open(const struct ops_null_model *model, enum dtype compute, enum dtype master,
                  struct device **ret_device, struct ops **ret_ops, struct err *err);
/* Of the products asked for since it was opened: 2 a multiplication, of causal attention those of
 * the lower triangle. */
double ops_null_flops(const struct ops *ops);

#endif
