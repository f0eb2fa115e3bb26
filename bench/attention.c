/*
 * attention — measures the forward and backward speed of attention on a device, by sequence length.
 *
 *     bench-attention [DEVICE [TOKENS...]]        device: cuda; tokens: 1024 2048 4096 8192
 *
 * For heads of 64 and 128 columns, causal and full: 16,384 tokens and 2048 head columns in total.
 * Prints one JSON line per case: the milliseconds per pass (median over rounds) and TFLOP/s. A
 * forward pass counts as 4 tokens^2 x columns operations per sequence, or half of that if causal. A
 * backward pass counts as 2.5 forward passes. bench/gpu_speed.py adds cuDNN's results.
 */
#include "base/clock.h"
#include "trainer/ops/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_TOTAL = 16384, /* total over all sequences; longer sequences run one at a time */
    COLUMNS = 2048,       /* total over all heads */
    ROUNDS = 7,
    PASSES = 5, /* per round, queued without waiting */
    TOKENS_MAX = 1 << 20,
};

struct bench {
    struct device *device;
    struct ops *ops;
    struct attn_shape shape;
    void *qkv, *out, *lse, *d_out, *d_qkv, *scratch; /* device memory */
};

static size_t count_rows(const struct attn_shape *shape)
{
    return shape->batch * shape->tokens;
}

static int allocate(struct bench *bench, size_t elements, size_t element_bytes, void **ret_memory,
                    struct err *err)
{
    *ret_memory = NULL;
    return elements ? bench->device->ops->mem_alloc(bench->device, MEM_DEVICE,
                                                    elements * element_bytes, ret_memory, err)
                    : 0;
}

static void release(struct bench *bench, size_t elements, size_t element_bytes, void *memory)
{
    bench->device->ops->mem_free(bench->device, MEM_DEVICE, memory, elements * element_bytes);
}

/* Fills target with random numbers from -1 to 1. */
static int fill(struct bench *bench, void *target, size_t elements, struct err *err)
{
    size_t bytes = ops_compute_bytes(bench->ops);
    uint8_t *host = malloc(elements * bytes);
    if (!host)
        return err_set(err, -ENOMEM, "out of memory for %zu numbers", elements);
    for (size_t i = 0; i < elements; i++) {
        uint32_t number = (uint32_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 40);
        float value = (float)number * 0x1p-23f - 1;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t high = (uint16_t)(bits >> 16); /* a bfloat16 is a float's upper half */
        memcpy(host + i * bytes, bytes == sizeof high ? (void *)&high : (void *)&bits, bytes);
    }
    int status = device_upload(bench->device, target, host, elements * bytes, err);
    free(host);
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* *ret_ms: milliseconds per pass. */
static int time_passes(struct bench *bench, bool backward, double *ret_ms, struct err *err)
{
    const struct ops_table *table = bench->ops->table;
    double ms[ROUNDS];
    /* round -1 is a warm-up */
    for (int round = -1; round < ROUNDS; round++) {
        uint64_t began = clock_now_ns();
        for (int i = 0; i < PASSES; i++) {
            if (backward)
                table->attn_bwd(bench->ops, &bench->shape, bench->d_qkv, bench->d_out, bench->qkv,
                                bench->out, bench->lse, NULL, bench->scratch);
            else
                table->attn_fwd(bench->ops, &bench->shape, bench->out, bench->lse, bench->qkv,
                                NULL);
        }
        int status = table->sync(bench->ops, err);
        if (status)
            return status;
        if (round >= 0)
            ms[round] = clock_seconds(clock_now_ns() - began) * 1e3 / PASSES;
    }
    qsort(ms, ROUNDS, sizeof ms[0], compare_doubles);
    *ret_ms = ms[ROUNDS / 2];
    return 0;
}

static void print_line(const struct bench *bench, const double ms[2])
{
    const struct attn_shape *shape = &bench->shape;
    double operations =
        4.0 * (double)count_rows(shape) * (double)shape->tokens * COLUMNS / (shape->causal ? 2 : 1);
    printf("{\"head_dim\":%" PRIu64 ",\"causal\":%s,\"tokens\":%" PRIu64 ",\"batch\":%" PRIu64
           ",\"forward_ms\":%.4f,\"forward_tflops\":%.1f,\"backward_ms\":%.4f,\"backward_tflops\":%"
           ".1f}\n",
           shape->head_dim, shape->causal ? "true" : "false", shape->tokens, shape->batch, ms[0],
           operations / ms[0] * 1e-9, ms[1], operations * 2.5 / ms[1] * 1e-9);
    fflush(stdout);
}

static int measure(struct bench *bench, uint64_t head_dim, bool causal, uint64_t tokens,
                   struct err *err)
{
    uint64_t heads = COLUMNS / head_dim;
    bench->shape = (struct attn_shape){.batch = tokens < TOKENS_TOTAL ? TOKENS_TOTAL / tokens : 1,
                                       .tokens = tokens,
                                       .heads = heads,
                                       .kv_heads = heads,
                                       .head_dim = head_dim,
                                       .causal = causal};
    size_t compute = ops_compute_bytes(bench->ops), master = ops_master_bytes(bench->ops);
    size_t elements = count_rows(&bench->shape) * COLUMNS, lse = count_rows(&bench->shape) * heads,
           scratch = 0;
    double ms[2];
    int status = bench->ops->table->plan_attn(bench->ops, &bench->shape, err);
    if (status)
        return status;
    scratch = bench->ops->table->attn_bwd_scratch_elements(bench->ops, &bench->shape);
    struct {
        size_t elements, element_bytes;
        void **memory;
    } arrays[] = {
        {3 * elements, compute, &bench->qkv},
        {elements, compute, &bench->out},
        {lse, master, &bench->lse},
        {elements, compute, &bench->d_out},
        {3 * elements, compute, &bench->d_qkv},
        {scratch, master, &bench->scratch},
    };
    size_t count = sizeof arrays / sizeof arrays[0], allocated = 0;
    for (; allocated < count && !status; allocated++)
        status = allocate(bench, arrays[allocated].elements, arrays[allocated].element_bytes,
                          arrays[allocated].memory, err);
    if (!status)
        status = fill(bench, bench->qkv, 3 * elements, err);
    if (!status)
        status = fill(bench, bench->d_out, elements, err);
    for (int backward = 0; backward < 2 && !status; backward++)
        status = time_passes(bench, backward, &ms[backward], err);
    if (!status)
        print_line(bench, ms);
    while (allocated-- > 0)
        release(bench, arrays[allocated].elements, arrays[allocated].element_bytes,
                *arrays[allocated].memory);
    return status;
}

static int measure_all(struct bench *bench, const uint64_t *tokens, size_t count, struct err *err)
{
    int status = 0;
    for (uint64_t head_dim = 64; head_dim <= 128; head_dim *= 2)
        for (int causal = 1; causal >= 0; causal--)
            for (size_t i = 0; i < count && !status; i++)
                status = measure(bench, head_dim, causal, tokens[i], err);
    return status;
}

int main(int argc, char **argv)
{
    enum { LENGTHS_MAX = 16 };
    const char *name = argc > 1 ? argv[1] : "cuda";
    uint64_t tokens[LENGTHS_MAX] = {1024, 2048, 4096, 8192};
    size_t count = argc > 2 ? 0 : 4;
    for (int i = 2; i < argc && count < LENGTHS_MAX; i++) {
        uint64_t length = strtoull(argv[i], NULL, 10);
        if (length < 1 || length > TOKENS_MAX) {
            fprintf(stderr, "bench-attention: %s is not a number of tokens from 1 to %d\n", argv[i],
                    TOKENS_MAX);
            return 2;
        }
        tokens[count++] = length;
    }
    struct bench bench = {0};
    struct err err = {0};
    int status = device_open(name, &bench.device, &err);
    if (!status)
        status = ops_open(bench.device, bench.device->ops->is_host ? DTYPE_F32 : DTYPE_BF16, 0,
                          &bench.ops, &err);
    if (!status)
        status = measure_all(&bench, tokens, count, &err);
    if (status)
        fprintf(stderr, "bench-attention: %s; %s\n", err.what, err.advice);
    ops_close(bench.ops);
    device_close(bench.device);
    return status ? 1 : 0;
}
