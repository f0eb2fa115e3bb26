/*
 * ops_null — a simulated compute table: it counts floating-point operations and reserves the memory
 * that the simulated backend would reserve, but computes nothing. With a null device (device.h) it
 * simulates a whole run.
 */
#ifndef MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H
#define MILLRACE_TRAINER_OPS_NULL_OPS_NULL_H

#include "trainer/ops/ops.h"

/* The memory properties of a backend. A NULL hook means 0. Immutable. */
struct ops_null_model {
    bool is_host; /* see device.h */
    bool embed_bwd_needs_rows_by_id;
    uint32_t logits_align;
    uint64_t fixed_bytes; /* allocated on open */
    /* Bytes that planning reserves; gemm and rows reserve the maximum of all requests. */
    uint64_t (*gemm_bytes)(const struct gemm_shape *shape);
    uint64_t (*rows_bytes)(uint64_t rows, uint64_t cols);
    uint64_t (*rope_bytes)(const struct attn_shape *shape);
    uint64_t (*attn_bwd_scratch_elements)(const struct attn_shape *shape); /* elements, see ops.h */
};

/* ops_null_cuda returns NULL in a build without CUDA. */
const struct ops_null_model *ops_null_cpu(void);
const struct ops_null_model *ops_null_cuda(void);

/* Also opens the model's null device. The caller owns both. */
int ops_null_open(const struct ops_null_model *model, enum dtype compute, enum dtype master,
                  struct device **ret_device, struct ops **ret_ops, struct err *err);
/* Floating-point operations of all products since opening, 2 per multiply-add. Causal attention
 * counts only the lower triangle. */
double ops_null_flops(const struct ops *ops);

#endif
