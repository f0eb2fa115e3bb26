/*
 * ops_cpu — the state that the cpu's compute ops share: thread pool and scratch memory.
 *
 * The .inc files implement the operations for an element type `real`; ops_f32.c and ops_f64.c
 * compile them. Tiles depend only on shapes, write separate outputs and sum in a fixed order, so
 * results do not depend on the pool's size.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_OPS_CPU_H
#define MILLRACE_TRAINER_OPS_CPU_OPS_CPU_H

#include "base/os/thread_pool.h"
#include "trainer/ops/cpu/blas.h"
#include "trainer/ops/ops.h"

enum {
    /* Increment after every kernel change that may change bits. */
    OPS_CPU_KERNELS_VERSION = 1,
    /* Elements per tile: 64 KiB of float, a few microseconds of work. */
    OPS_CPU_GRAIN = 16384,
    OPS_CPU_CHUNKS_MAX = 64,
    /* Partial sums of all chunks for two arrays of 4096 columns; wider arrays use fewer chunks. */
    OPS_CPU_PARTIALS = OPS_CPU_CHUNKS_MAX * 2 * 4096,
    OPS_CPU_ALIGN_BYTES = 64,
};

/* Grows when a shape is planned; never shrinks. */
struct ops_cpu_scratch {
    void *memory;
    size_t bytes;
};

struct ops_cpu {
    struct ops ops;
    struct thread_pool *pool;
    struct blas blas;
    int status; /* first failure since the last sync */
    struct err failure;
    void *partials;
    struct ops_cpu_scratch split;     /* partial products of a split inner dimension */
    struct ops_cpu_scratch attention; /* one slice per worker */
    size_t attention_worker_bytes;
};

extern const struct ops_table ops_cpu_table_f32, ops_cpu_table_f64;

static inline struct ops_cpu *ops_cpu_of(struct ops *ops)
{
    return (struct ops_cpu *)ops;
}

/* Grows the scratch to `bytes`; its contents are lost. -ENOMEM. */
int ops_cpu_reserve(struct ops_cpu_scratch *scratch, size_t bytes, struct err *err);
/* Records a failure for sync; only the first is kept. */
void ops_cpu_fail(struct ops_cpu *cpu, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Hooks that do not depend on the element type. */
int ops_cpu_plan_rows(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err);
int ops_cpu_plan_attn(struct ops *ops, const struct attn_shape *shape, struct err *err);
int ops_cpu_plan_rope(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                      struct err *err);
uint64_t ops_cpu_attn_bwd_scratch_elements(struct ops *ops, const struct attn_shape *shape);
void ops_cpu_convert_to_compute(struct ops *ops, void *compute, const void *master, uint64_t count);
void ops_cpu_add_to_exact_sum(struct ops *ops, int64_t *words, const double *terms, uint64_t count);
void ops_cpu_add_flag_count(struct ops *ops, int64_t *word, const uint8_t *flags, uint64_t count);
void ops_cpu_clip_gradients(struct ops *ops, struct gradient_clip *clip, const int64_t *losses,
                            const int64_t *squares, const struct gradient_clip_input *input);
void ops_cpu_numerics_id(struct ops *ops, struct str *out);
void ops_cpu_add_tracks(struct ops *ops, struct trace *trace);
int ops_cpu_sync(struct ops *ops, struct err *err);
int ops_cpu_status(const struct ops *ops, struct err *err);
void ops_cpu_close(struct ops *ops);

/* Maximum queries per attention tile, and the alignment of its score rows. */
enum { OPS_CPU_QUERIES_MAX = 80, OPS_CPU_SCORES_ALIGN = 16 };

static inline uint64_t ops_cpu_query_tiles(const struct attn_shape *shape)
{
    return (shape->tokens + OPS_CPU_QUERIES_MAX - 1) / OPS_CPU_QUERIES_MAX;
}

/* Rows of a query tile. Tiles have nearly equal heights: 81 tokens are split into 41 + 40. */
static inline uint64_t ops_cpu_query_rows(const struct attn_shape *shape)
{
    uint64_t tiles = ops_cpu_query_tiles(shape);
    return (shape->tokens + tiles - 1) / tiles;
}

static inline uint64_t ops_cpu_score_stride(const struct attn_shape *shape)
{
    return (shape->tokens + OPS_CPU_SCORES_ALIGN - 1) / OPS_CPU_SCORES_ALIGN * OPS_CPU_SCORES_ALIGN;
}

/* Scratch elements per worker: scores, their gradients, and factors per query. */
static inline uint64_t ops_cpu_attn_elements(const struct attn_shape *shape)
{
    return ops_cpu_query_rows(shape) * (2 * ops_cpu_score_stride(shape) + 16);
}

#endif
