/*
 * ops_cpu — what the files of the cpu's compute ops share: the opened ops, its pool and its scratch
 * memory.
 *
 * The operations are written once, in ops_cpu_*.inc, for an element type called `real`;
 * ops_cpu_f32.c and ops_cpu_f64.c compile them. Work is cut into tiles by shapes alone, a tile
 * writes only what is its own, and sums inside it run in a written order; so the pool's size
 * changes nothing but the time.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_OPS_CPU_H
#define MILLRACE_TRAINER_OPS_CPU_OPS_CPU_H

#include "base/thread_pool.h"
#include "trainer/ops/cpu/blas.h"
#include "trainer/ops/ops.h"

enum {
    /* Counts up with every change of a kernel that may change bits. */
    OPS_CPU_KERNELS_VERSION = 1,
    /* Elements of a tile of elementwise work: 64 KiB of float, some microseconds. */
    OPS_CPU_GRAIN = 16384,
    /* Sums over rows run in at most so many chunks of rows; their partial sums, for two columns
     * sums at once ... */
    OPS_CPU_CHUNKS_MAX = 64,
    /* ... take 64 * 2 * 4096 elements; wider matrices get fewer chunks. */
    OPS_CPU_PARTIALS = OPS_CPU_CHUNKS_MAX * 2 * 4096,
    OPS_CPU_ALIGN_BYTES = 64,
};

/* Memory that only grows, and only when a shape is planned. */
struct ops_cpu_scratch {
    void *memory;
    size_t bytes;
};

/* Owner thread. */
struct ops_cpu {
    struct ops ops;
    struct thread_pool *pool;
    struct blas blas;
    int status; /* the first failure since the last sync */
    struct err failure;
    void *partials;                   /* OPS_CPU_PARTIALS elements */
    struct ops_cpu_scratch split;     /* products whose inner dimension is split */
    struct ops_cpu_scratch attention; /* a part for each worker of the pool */
    size_t attention_worker_bytes;
};

extern const struct ops_table ops_cpu_table_f32, ops_cpu_table_f64;

static inline struct ops_cpu *ops_cpu_of(struct ops *ops)
{
    return (struct ops_cpu *)ops; /* the first member */
}

/* At least bytes; what it held is lost. -ENOMEM. */
int ops_cpu_reserve(struct ops_cpu_scratch *scratch, size_t bytes, struct err *err);
/* Remembers the first failure for sync. */
void ops_cpu_fail(struct ops_cpu *cpu, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The table's hooks that have no element type. */
int ops_cpu_plan_rows(struct ops *ops, uint64_t rows, uint64_t cols, struct err *err);
int ops_cpu_plan_attn(struct ops *ops, const struct attn_shape *shape, struct err *err);
int ops_cpu_plan_rope(struct ops *ops, const struct attn_shape *shape, const struct rope_spec *spec,
                      struct err *err);
uint64_t ops_cpu_attn_bwd_scratch(struct ops *ops, const struct attn_shape *shape);
void ops_cpu_to_compute(struct ops *ops, void *compute, const void *master, uint64_t count);
void ops_cpu_exact_add(struct ops *ops, int64_t *words, const double *terms, uint64_t count);
void ops_cpu_count_add(struct ops *ops, int64_t *word, const uint8_t *flags, uint64_t count);
void ops_cpu_gate_update(struct ops *ops, struct update_gate *gate, const int64_t *losses,
                         const int64_t *squares, const struct update_gate_request *request);
void ops_cpu_numerics_id(struct ops *ops, struct str *out);
void ops_cpu_add_tracks(struct ops *ops, struct trace *trace);
int ops_cpu_sync(struct ops *ops, struct err *err);
int ops_cpu_status(const struct ops *ops, struct err *err);
void ops_cpu_close(struct ops *ops);

/* Queries that a worker handles at once in attention, and the row length of its scores. */
enum { OPS_CPU_QUERIES_MAX = 80, OPS_CPU_SCORES_ALIGN = 16 };

static inline uint64_t ops_cpu_query_tiles(const struct attn_shape *shape)
{
    return (shape->tokens + OPS_CPU_QUERIES_MAX - 1) / OPS_CPU_QUERIES_MAX;
}

/* Tiles of equal height: 65 tokens are one tile, 81 are 41 + 40. */
static inline uint64_t ops_cpu_query_rows(const struct attn_shape *shape)
{
    uint64_t tiles = ops_cpu_query_tiles(shape);
    return (shape->tokens + tiles - 1) / tiles;
}

static inline uint64_t ops_cpu_score_stride(const struct attn_shape *shape)
{
    return (shape->tokens + OPS_CPU_SCORES_ALIGN - 1) / OPS_CPU_SCORES_ALIGN * OPS_CPU_SCORES_ALIGN;
}

#endif
