/*
 * ops — the compute table: all operations of a model, on one device in one precision.
 *
 * Matrices are row-major and dense. The order of additions depends only on shapes, not on threads.
 * Operations are queued on the ops' stream (the cpu runs them immediately) and return nothing;
 * `sync` returns the first failure. Arrays are in device or pinned memory.
 *
 * Activations and the weights used in products have the `compute` type; parameters, gradients and
 * moments have the `master` type. On the cpu both are F32 (F64 for gradient checks). On a GPU
 * compute is F32, BF16 or F16, and master is F32.
 *
 * Threads: only the owner thread may use an ops.
 */
#ifndef MILLRACE_TRAINER_OPS_OPS_H
#define MILLRACE_TRAINER_OPS_OPS_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/shared_inline.h"
#include "base/str.h"
#include "device/device.h"
#include "trainer/ops/category_timer.h"
#include "trainer/ops/rope_spec.h"
#include "trainer/ops/rules/rules.h"

#include <stdbool.h>
#include <stdint.h>

struct ops;
struct trace;

/* C[m,n] = op(A) op(B) (+ bias[n] on each row) (+ C). A is [m,k], or [k,m] with trans_a; B is
 * [k,n], or [n,k] with trans_b. */
struct gemm_shape {
    uint64_t m, n, k;
    bool trans_a, trans_b;
    bool bias; /* of the compute type */
    bool accumulate;
    bool master_output; /* C has the master type (gradients), else the compute type */
};

/* The algorithm for one shape. Immutable; valid until its ops is closed. */
struct gemm_plan {
    struct gemm_shape shape;
    const void *algorithm; /* owned by the backend */
    uint32_t algorithm_id; /* included in numerics_id */
};

enum norm_kind { NORM_LAYER, NORM_RMS };

struct norm_shape {
    enum norm_kind kind;
    uint64_t rows, cols;
    double epsilon;
    /* Groups of group_rows contiguous rows, such as a token's q heads in qkv, start group_stride
     * elements apart. group_rows 0: all rows are contiguous. */
    uint64_t group_rows, group_stride;
};

/* Offset of a row, in elements. */
SHARED_INLINE uint64_t norm_row_offset(const struct norm_shape *shape, uint64_t row)
{
    return shape->group_rows ? row / shape->group_rows * shape->group_stride +
                                   row % shape->group_rows * shape->cols
                             : row * shape->cols;
}

/* Maximum columns of a norm whose gradient is computed in place. */
enum { NORM_IN_PLACE_COLS_MAX = 256 };

/* qkv is [batch * tokens, (heads + 2 * kv_heads) * head_dim]: all q heads, then k, then v. Scores
 * are scaled by 1/sqrt(head_dim). heads is a multiple of kv_heads (grouped-query attention). */
struct attn_shape {
    uint64_t batch, tokens, heads, kv_heads, head_dim;
    bool causal;
};

static inline bool attn_shape_is_valid(const struct attn_shape *s)
{
    return s->batch > 0 && s->tokens > 0 && s->heads > 0 && s->kv_heads > 0 && s->head_dim > 0 &&
           s->heads % s->kv_heads == 0;
}

/* The target of logits row item * tokens + t is targets[item * target_stride + t]. Rows are
 * `stride` elements apart; columns from `classes` on are padding. */
struct xent_shape {
    uint64_t items, tokens, target_stride, classes, stride;
};

/* A second target per row for mixup and CutMix, indexed like the targets. In device memory. */
struct xent_mix {
    const int32_t *targets;
    const float *weights; /* of the first target, 0..1; the second has 1 - weight */
};

/* Weight decay is enabled per block of this many elements. */
enum { OPS_DECAY_ELEMENTS = 64 };

/* Arrays of `count` elements of the master type, except compute and decays. */
struct update_arrays {
    void *params;
    void *compute; /* receives the weights in the compute type; NULL if that is the master type */
    void *moment1, *moment2; /* updated, subnormals flushed to 0; NULL if the rule has none */
    const void *gradients;   /* sums over all items */
    const uint8_t *decays;   /* per OPS_DECAY_ELEMENTS elements: 1 to decay, else 0 */
    uint64_t count;
};

struct gradient_clip;
struct gradient_clip_input;

/* Hooks are required unless marked optional. Sizes are in elements. Outputs and inputs do not
 * overlap unless stated. */
struct ops_table {
    const char *name; /* "cpu", "cuda" */

    int (*plan_gemm)(struct ops *ops, const struct gemm_shape *shape, struct gemm_plan *ret_plan,
                     struct err *err);
    void (*gemm)(struct ops *ops, const struct gemm_plan *plan, const void *a, const void *b,
                 const void *bias, void *c);
    /* Reserves the workspace that bias_bwd, norm_bwd and embed_bwd require for a gradient [rows,
     * cols]. -ENOMEM. */
    int (*plan_rows)(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err);
    /* d_bias[cols] (master) = column sums of d_out[rows, cols] (+ d_bias). */
    void (*bias_bwd)(struct ops *ops, void *d_bias, const void *d_out, uint64_t rows, uint64_t cols,
                     bool accumulate);

    /* out = norm(x) * weight + bias. mean, rstd: [rows], master. RMS ignores mean and bias. */
    void (*norm_fwd)(struct ops *ops, const struct norm_shape *shape, void *out, void *mean,
                     void *rstd, const void *x, const void *weight, const void *bias);
    /* d_x += ...; d_weight and d_bias (master) = sums over rows (+ old values). RMS ignores mean
     * and d_bias. If d_out is NULL, d_x holds the gradient of out and is replaced; cols is then at
     * most NORM_IN_PLACE_COLS_MAX. out, x, d_out and d_x have the row layout of shape. */
    void (*norm_bwd)(struct ops *ops, const struct norm_shape *shape, void *d_x, void *d_weight,
                     void *d_bias, const void *d_out, const void *x, const void *mean,
                     const void *rstd, const void *weight, bool accumulate);

    /* Reserves the workspace that attn_fwd and attn_bwd require. -EINVAL with detail if the backend
     * does not support the shape. */
    int (*plan_attn)(struct ops *ops, const struct attn_shape *shape, struct err *err);
    /* out: [batch * tokens, heads * head_dim]. lse: [batch, heads, tokens], master: the log-sum-exp
     * of the scores. Memory is linear in tokens. */
    /* row_starts: [batch * tokens], the first key that each row attends to, at most its own
     * position. NULL: equivalent to all 0. */
    void (*attn_fwd)(struct ops *ops, const struct attn_shape *shape, void *out, void *lse,
                     const void *qkv, const int32_t *row_starts);
    /* Writes all of d_qkv. scratch: attn_bwd_scratch_elements() of the master type; NULL if 0.
     * row_starts must equal those of the forward pass. */
    void (*attn_bwd)(struct ops *ops, const struct attn_shape *shape, void *d_qkv,
                     const void *d_out, const void *qkv, const void *out, const void *lse,
                     const int32_t *row_starts, void *scratch);
    uint64_t (*attn_bwd_scratch_elements)(struct ops *ops, const struct attn_shape *shape);
    /* Computes the angles that rope needs for this shape. -ENOMEM, -EINVAL. */
    int (*plan_rope)(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                     struct err *err);
    /* Rotary position embedding, in place on the q and k heads of qkv (Su et al., "RoFormer",
     * 2021). Pairs are (d, d + head_dim/2), as in Hugging Face. backward reverses the rotation. */
    void (*rope)(struct ops *ops, const struct attn_shape *shape, void *qkv,
                 const struct rope_spec *spec, bool backward);

    /* GELU, tanh approximation (Hendrycks and Gimpel, 2016), as in GPT-2. d_x = d_out *
     * gelu'(x). */
    void (*gelu_fwd)(struct ops *ops, void *out, const void *x, uint64_t count);
    void (*gelu_bwd)(struct ops *ops, void *d_x, const void *d_out, const void *x, uint64_t count);
    /* gate_up is [rows, 2 * cols]: gate, then up. out = silu(gate) * up (Shazeer, "GLU variants
     * improve transformer", 2020). */
    void (*swiglu_fwd)(struct ops *ops, void *out, const void *gate_up, uint64_t rows,
                       uint64_t cols);
    void (*swiglu_bwd)(struct ops *ops, void *d_gate_up, const void *d_out, const void *gate_up,
                       uint64_t rows, uint64_t cols);
    /* out may be a or b. */
    void (*add)(struct ops *ops, void *out, const void *a, const void *b, uint64_t count);

    /* out[item * tokens + t] = table[ids[item * id_stride + t]] (+ positions[t]; may be NULL). The
     * ids must be valid. */
    void (*embed_fwd)(struct ops *ops, void *out, const int32_t *ids, uint64_t id_stride,
                      const void *table, const void *positions, uint64_t items, uint64_t tokens,
                      uint64_t cols);
    /* d_table (master) = sums in row order, without atomics; all `vocabulary` rows are written.
     * rows_by_id: the rows of d_out (item * tokens + t) sorted by id, then by row; NULL if
     * embed_bwd_needs_rows_by_id is false. */
    void (*embed_bwd)(struct ops *ops, void *d_table, const void *d_out, const int32_t *ids,
                      uint64_t id_stride, const int32_t *rows_by_id, uint64_t items,
                      uint64_t tokens, uint64_t cols, uint64_t vocabulary, bool accumulate);
    bool embed_bwd_needs_rows_by_id;
    /* out[item * rows + r] = x[item * rows + r] + positions[r]. Backward: d_positions = sums over
     * items. */
    void (*positions_fwd)(struct ops *ops, void *out, const void *x, const void *positions,
                          uint64_t items, uint64_t rows, uint64_t cols);
    void (*positions_bwd)(struct ops *ops, void *d_positions, const void *d_out, uint64_t items,
                          uint64_t rows, uint64_t cols, bool accumulate);
    /* Converts uint8 images [items, side, side, 3] to patches [items * (side/patch)^2, patch *
     * patch * 3], row-major within a patch, colors last: (u/255 - mean[c]) / deviation[c]. */
    void (*patches)(struct ops *ops, void *out, const uint8_t *images, uint64_t items,
                    uint64_t side, uint64_t patch, const float mean[3], const float deviation[3]);
    /* out[item] = mean of its rows; the gradient of each row is d_out / rows. */
    void (*pool_fwd)(struct ops *ops, void *out, const void *x, uint64_t items, uint64_t rows,
                     uint64_t cols);
    void (*pool_bwd)(struct ops *ops, void *d_x, const void *d_out, uint64_t items, uint64_t rows,
                     uint64_t cols);

    /* Softmax cross-entropy. With gradient_scale (device memory; may be NULL), logits become
     * *gradient_scale * (softmax - onehot), the gradient of the scaled *sum* of losses, and 0 in
     * the padding. Rows with target < 0 have zero gradient and loss. losses: F64 [rows]. correct:
     * U8 [rows], 1 if the target is the first of the largest logits.
     *
     * With mix (may be NULL), onehot and loss are weighted sums over both targets, and correct
     * refers to the target with the larger weight, or the first on a tie. A weight of 1 is
     * bit-identical to a NULL mix. */
    void (*xent)(struct ops *ops, const struct xent_shape *shape, void *logits, double *losses,
                 uint8_t *correct, const int32_t *targets, const struct xent_mix *mix,
                 const double *gradient_scale);
    /* Products are fastest if the row stride of logits is a multiple of this power of two. */
    uint32_t logits_align;

    /* target += source (master): one node of the fixed reduction tree. */
    void (*tree_add)(struct ops *ops, void *target, const void *source, uint64_t count);
    /* narrow: out (BF16 or F16) = x (master) * scale, rounded to nearest even, overflowing to
     * infinity. widen: out (master) = x * scale. scale: a power of two. */
    void (*narrow)(struct ops *ops, enum dtype type, void *out, const void *x, float scale,
                   uint64_t count);
    void (*widen)(struct ops *ops, enum dtype type, void *out, const void *x, float scale,
                  uint64_t count);
    /* Applies a rule (trainer/ops/rules/) unless scalars->is_skipped. */
    void (*update)(struct ops *ops, enum update_rule rule, const struct update_options *options,
                   const struct update_arrays *arrays, const struct update_scalars *scalars);
    void (*convert_to_compute)(struct ops *ops, void *compute, const void *master, uint64_t count);
    /* sums[row] = sum of squares of x[row, ...] (master), in double and a fixed order. */
    void (*row_sumsq)(struct ops *ops, double *sums, const void *x, uint64_t rows, uint64_t cols);
    /* Adds terms to the words of a struct exact_sum (base/numeric/exact_sum.h). */
    void (*add_to_exact_sum)(struct ops *ops, int64_t *words, const double *terms, uint64_t count);
    /* *word += the sum of flags, each 0 or 1. */
    void (*add_flag_count)(struct ops *ops, int64_t *word, const uint8_t *flags, uint64_t count);

    /* gradient_clip_compute (trainer/ops/gradient_clip.h). All but `input` is in device memory. */
    void (*clip_gradients)(struct ops *ops, struct gradient_clip *clip, const int64_t *losses,
                           const int64_t *squares, const struct gradient_clip_input *input);

    /* Optional: queues category_timer_switch with the device's clock. timer: device memory,
     * initially zero. */
    void (*switch_category)(struct ops *ops, struct category_timer *timer,
                            enum time_category category);

    /* Appends everything that determines the result bits: device, library versions, algorithms. */
    void (*numerics_id)(struct ops *ops, struct str *out);
    /* Blocks. Returns the first failure since the last call. */
    int (*sync)(struct ops *ops, struct err *err);
    /* Returns the failure that sync would return, if it is already known, without blocking or
     * clearing it. */
    int (*status)(const struct ops *ops, struct err *err);
    /* Addresses are not backed by memory (ops_null.h); the host must not access the arrays. */
    bool is_simulated;
    /* Optional: records the pool's threads in the trace, which must outlive the ops. */
    void (*add_tracks)(struct ops *ops, struct trace *trace);
    void (*close)(struct ops *ops);
};

/* Required hooks: first those that the cpu compiles for each element type, then the others. */
/* clang-format off */
#define OPS_TYPED_HOOKS(HOOK)                                                                      \
    HOOK(plan_gemm) HOOK(gemm) HOOK(bias_bwd) HOOK(norm_fwd) HOOK(norm_bwd) HOOK(attn_fwd)         \
    HOOK(attn_bwd) HOOK(rope) HOOK(gelu_fwd) HOOK(gelu_bwd) HOOK(swiglu_fwd) HOOK(swiglu_bwd)      \
    HOOK(add) HOOK(embed_fwd) HOOK(embed_bwd) HOOK(positions_fwd) HOOK(positions_bwd)              \
    HOOK(patches) HOOK(pool_fwd) HOOK(pool_bwd) HOOK(xent) HOOK(tree_add) HOOK(narrow) HOOK(widen) \
    HOOK(update) HOOK(row_sumsq)
#define OPS_UNTYPED_HOOKS(HOOK)                                                                    \
    HOOK(plan_rows) HOOK(plan_attn) HOOK(attn_bwd_scratch_elements) HOOK(plan_rope)                \
    HOOK(convert_to_compute) HOOK(add_to_exact_sum) HOOK(add_flag_count) HOOK(clip_gradients)      \
    HOOK(numerics_id) HOOK(sync) HOOK(status) HOOK(close)
/* clang-format on */

/* The first member of every backend's struct. Immutable. */
struct ops {
    const struct ops_table *table;
    struct device *device;
    /* Work queued here runs in order with the operations. */
    struct device_stream *stream;
    enum dtype compute, master;
};

/* compute: DTYPE_F32, or DTYPE_F64 (tests). threads: 0 means one per CPU. Borrows device; if device
 * is NULL, the ops has no stream and accepts any memory. The caller owns *ret_ops. */
int ops_cpu_open(struct device *device, enum dtype compute, unsigned threads, struct ops **ret_ops,
                 struct err *err);
/* compute: DTYPE_F32; on a GPU also DTYPE_BF16 and DTYPE_F16. -EINVAL with detail if
 * unsupported. */
int ops_open(struct device *device, enum dtype compute, unsigned threads, struct ops **ret_ops,
             struct err *err);
void ops_close(struct ops *ops); /* NULL is fine */
/* The instruction set of the cpu's kernels on this machine: "avx512f", "avx2" or "baseline".
 * OpenBLAS chooses separately. */
const char *ops_cpu_kernels(void);

static inline size_t ops_compute_bytes(const struct ops *ops)
{
    return dtype_bytes(ops->compute);
}

static inline size_t ops_master_bytes(const struct ops *ops)
{
    return dtype_bytes(ops->master);
}

#endif
