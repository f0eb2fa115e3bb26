/*
 * ops_null — a compute table that computes nothing: it counts the requested floating-point
 * operations and reserves the memory that the simulated backend would reserve. With a null device
 * (device.h) it simulates a whole run.
 */
#ifndef MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H
#define MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H

#include "trainer/ops/ops.h"

/* The properties of a backend that determine a model's memory. A NULL hook means size 0.
 * Immutable. */
struct ops_null_model {
    bool is_host; /* of its device, see device.h */
    bool embed_bwd_wants_order;
    uint32_t logits_align;
    uint64_t fixed_bytes; /* allocated on open */
    /* Reserved on planning. gemm and rows each keep one piece, of the largest request. */
    uint64_t (*gemm_bytes)(const struct gemm_shape *shape);
    uint64_t (*rows_bytes)(uint64_t rows, uint64_t cols);
    uint64_t (*rope_bytes)(const struct attn_shape *shape);
    uint64_t (*attn_bwd_scratch)(const struct attn_shape *shape); /* elements, see ops.h */
};

/* The models of the cpu and of a GPU; the latter is NULL in a build without CUDA. */
const struct ops_null_model *ops_null_cpu(void);
const struct ops_null_model *ops_null_cuda(void);

/* Also opens the null device that fits the model. The caller owns both. */
int ops_null_open(const struct ops_null_model *model, enum dtype compute, enum dtype master,
                  struct device **ret_device, struct ops **ret_ops, struct err *err);
/* Floating-point operations of the products requested since opening: 2 per multiplication; causal
 * attention counts the lower triangle only. */
double ops_null_flops(const struct ops *ops);

#endif
