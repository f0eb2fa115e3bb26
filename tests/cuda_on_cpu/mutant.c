/*
 * mutant — runs one GPU operation, correct or with one bug, in every order; mutations.c checks that
 * the bug is caught.
 *
 *     cuda_mutant NAME       0: no error detected; 1: wrong values; else: set by what caught it
 */
#include "tests/cuda_on_cpu/mutants.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/cuda_on_cpu/product_case.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 5, COUNT = BLOCKS * REVERSE_THREADS };

static void check_cuda(cudaError_t status)
{
    if (status != cudaSuccess) {
        printf("cuda: %s\n", cudaGetErrorString(status));
        exit(3);
    }
}

static void expect(float found, double expected, const char *where)
{
    if (!(fabs(found - expected) <= 1e-4)) {
        printf("wrong values: %s: %g, not %g\n", where, (double)found, expected);
        exit(1);
    }
}

static void *alloc_device(const void *initial, size_t bytes)
{
    void *memory;
    check_cuda(cudaMalloc(&memory, bytes));
    if (initial)
        check_cuda(cudaMemcpy(memory, initial, bytes, cudaMemcpyHostToDevice));
    return memory;
}

static void fill(float x[COUNT])
{
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i * 37 % 101 + 1);
}

static void run_reverse(int mutation)
{
    float x[COUNT], out[COUNT];
    fill(x);
    float *d_x = alloc_device(x, sizeof x), *d_out = alloc_device(NULL, sizeof out);
    check_cuda(mutants_reverse((enum mutation)mutation, d_out, d_x, BLOCKS, 3, NULL));
    check_cuda(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        expect(
            out[i],
            x[i / REVERSE_THREADS * REVERSE_THREADS + REVERSE_THREADS - 1 - i % REVERSE_THREADS] +
                1.0,
            "reverse");
    check_cuda(cudaFree(d_x));
    check_cuda(cudaFree(d_out));
}

static void run_sum(int mutation)
{
    float x[COUNT], out[BLOCKS];
    fill(x);
    float *d_x = alloc_device(x, sizeof x), *d_out = alloc_device(NULL, sizeof out);
    check_cuda(mutants_sum((enum mutation)mutation, d_out, d_x, BLOCKS, NULL));
    check_cuda(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int b = 0; b < BLOCKS; b++) {
        double sum = 0;
        for (int i = 0; i < REVERSE_THREADS; i++)
            sum += x[b * REVERSE_THREADS + i];
        expect(out[b], sum, "sum");
    }
    check_cuda(cudaFree(d_x));
    check_cuda(cudaFree(d_out));
}

static void run_product(int mutation)
{
    static struct product_case p;
    float out[PRODUCT_ROWS * PRODUCT_COLUMNS];
    product_case_fill(&p);
    uint16_t *d_a = alloc_device(p.a16, sizeof p.a16), *d_b = alloc_device(p.b16, sizeof p.b16);
    float *d_out = alloc_device(NULL, sizeof out);
    check_cuda(mutants_product((enum mutation)mutation, d_out, d_a, d_b, NULL));
    check_cuda(cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < PRODUCT_ROWS * PRODUCT_COLUMNS; i++)
        expect(out[i], product_case_expected(&p, i), "product");
    check_cuda(cudaFree(d_a));
    check_cuda(cudaFree(d_b));
    check_cuda(cudaFree(d_out));
}

enum stream_mutation {
    STREAMS_CORRECT,
    STREAMS_NO_WAIT,       /* the second stream reads before the first has written */
    STREAMS_NO_READ_WAIT,  /* the first stream overwrites what the second has not read yet */
    STREAMS_EARLY_RECORD,  /* the event is recorded before the work that it should follow */
    STREAMS_REUSED_BUFFER, /* the host overwrites the pinned buffer before it has been copied */
    STREAMS_NO_SYNC,       /* the host reads the pinned result before it is complete */
};

/* Copies x to the device on one stream, doubles it on another and copies it back, three times with
 * the same buffers. */
static void run_streams(int mutation)
{
    enum { N = 64, ROUNDS = 3 };
    cudaStream_t in, work;
    cudaEvent_t copied, used, done;
    float *pinned, *result, *d_x, *d_y;
    check_cuda(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    check_cuda(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    check_cuda(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
    check_cuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    check_cuda(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0));
    check_cuda(cudaHostAlloc((void **)&result, ROUNDS * N * sizeof *result, 0));
    d_x = alloc_device(NULL, N * sizeof *d_x);
    d_y = alloc_device(NULL, N * sizeof *d_y);
    for (int round = 0; round < ROUNDS; round++) {
        if (mutation != STREAMS_REUSED_BUFFER)
            check_cuda(cudaEventSynchronize(copied));
        for (int i = 0; i < N; i++)
            pinned[i] = (float)(round * N + i);
        if (mutation != STREAMS_NO_READ_WAIT)
            check_cuda(cudaStreamWaitEvent(in, used, 0));
        if (mutation == STREAMS_EARLY_RECORD)
            check_cuda(cudaEventRecord(copied, in));
        check_cuda(cudaMemcpyAsync(d_x, pinned, N * sizeof *d_x, cudaMemcpyHostToDevice, in));
        if (mutation != STREAMS_EARLY_RECORD)
            check_cuda(cudaEventRecord(copied, in));
        if (mutation != STREAMS_NO_WAIT)
            check_cuda(cudaStreamWaitEvent(work, copied, 0));
        check_cuda(cudaMemcpyAsync(d_y, d_x, N * sizeof *d_y, cudaMemcpyDeviceToDevice, work));
        check_cuda(cudaEventRecord(used, work));
        check_cuda(mutants_double_and_add(d_y, 1, N, work));
        check_cuda(cudaMemcpyAsync(result + round * N, d_y, N * sizeof *d_y, cudaMemcpyDeviceToHost,
                                   work));
    }
    check_cuda(cudaEventRecord(done, work));
    if (mutation != STREAMS_NO_SYNC)
        check_cuda(cudaEventSynchronize(done));
    for (int i = 0; i < ROUNDS * N; i++)
        expect(result[i], i * 2.0 + 1, "streams");
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaFree(d_x));
    check_cuda(cudaFree(d_y));
    check_cuda(cudaFreeHost(pinned));
    check_cuda(cudaFreeHost(result));
    check_cuda(cudaEventDestroy(copied));
    check_cuda(cudaEventDestroy(used));
    check_cuda(cudaEventDestroy(done));
    check_cuda(cudaStreamDestroy(in));
    check_cuda(cudaStreamDestroy(work));
}

enum graph_mutation { GRAPH_CORRECT, GRAPH_NO_WAIT };

/* The graph copies x on a side stream, then changes it on the main stream. */
static void run_graph(int mutation)
{
    enum { N = 64, LAUNCHES = 3 };
    cudaStream_t stream, side;
    cudaEvent_t fork, copied;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float out[N], *d_x = alloc_device(NULL, sizeof out), *d_y = alloc_device(NULL, sizeof out);
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check_cuda(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    check_cuda(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    check_cuda(cudaMemsetAsync(d_x, 0, sizeof out, stream));
    check_cuda(cudaEventRecord(fork, stream));
    check_cuda(cudaStreamWaitEvent(side, fork, 0));
    check_cuda(cudaMemcpyAsync(d_y, d_x, sizeof out, cudaMemcpyDeviceToDevice, side));
    check_cuda(cudaEventRecord(copied, side));
    if (mutation != GRAPH_NO_WAIT)
        check_cuda(cudaStreamWaitEvent(stream, copied, 0));
    check_cuda(mutants_double_and_add(d_x, 1, N, stream));
    check_cuda(cudaStreamWaitEvent(stream, copied, 0));
    check_cuda(cudaStreamEndCapture(stream, &graph));
    check_cuda(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < LAUNCHES; launch++)
        check_cuda(cudaGraphLaunch(exec, stream));
    check_cuda(cudaMemcpyAsync(out, d_y, sizeof out, cudaMemcpyDeviceToHost, stream));
    for (int i = 0; i < N; i++)
        expect(out[i], 0, "graph");
    check_cuda(cudaGraphExecDestroy(exec));
    check_cuda(cudaGraphDestroy(graph));
    check_cuda(cudaFree(d_x));
    check_cuda(cudaFree(d_y));
    check_cuda(cudaEventDestroy(fork));
    check_cuda(cudaEventDestroy(copied));
    check_cuda(cudaStreamDestroy(stream));
    check_cuda(cudaStreamDestroy(side));
}

enum host_mutation {
    HOST_CORRECT,
    HOST_TOUCHES_DEVICE,
    HOST_POINTER_ARGUMENT,
    HOST_FREED_ARGUMENT,
    HOST_COPY_TOO_LONG,
    HOST_ODD_BLOCK
};

static void run_host(int mutation)
{
    static float plain[32];
    float *d_x = alloc_device(plain, sizeof plain), *freed = alloc_device(plain, sizeof plain);
    check_cuda(cudaFree(freed));
    switch (mutation) {
    case HOST_TOUCHES_DEVICE:
        d_x[3] = 1;
        break;
    case HOST_POINTER_ARGUMENT:
        check_cuda(mutants_double_and_add(plain, 1, 32, NULL));
        break;
    case HOST_FREED_ARGUMENT:
        check_cuda(mutants_double_and_add(freed, 1, 32, NULL));
        break;
    case HOST_COPY_TOO_LONG:
        check_cuda(cudaMemset(d_x, 0, sizeof plain + 1));
        break;
    case HOST_ODD_BLOCK:
        check_cuda(mutants_empty(33, 0, false, NULL));
        break;
    default:
        check_cuda(mutants_double_and_add(d_x, 1, 32, NULL));
        break;
    }
    check_cuda(cudaFree(d_x));
}

static const struct {
    const char *name;
    void (*run)(int mutation);
    int mutation;
} mutants[] = {
    {"reverse", run_reverse, MUTATION_NONE},
    {"no-barrier", run_reverse, MUTATION_NO_BARRIER},
    {"no-second-barrier", run_reverse, MUTATION_NO_SECOND_BARRIER},
    {"early-return", run_reverse, MUTATION_EARLY_RETURN},
    {"two-barriers", run_reverse, MUTATION_TWO_BARRIERS},
    {"shared-overrun", run_reverse, MUTATION_SHARED_OVERRUN},
    {"global-overrun", run_reverse, MUTATION_GLOBAL_OVERRUN},
    {"sum", run_sum, MUTATION_NONE},
    {"bad-mask", run_sum, MUTATION_BAD_MASK},
    {"half-warp", run_sum, MUTATION_HALF_WARP},
    {"no-syncwarp", run_sum, MUTATION_NO_SYNCWARP},
    {"same-value", run_sum, MUTATION_SAME_VALUE},
    {"product", run_product, MUTATION_NONE},
    {"no-copy-wait", run_product, MUTATION_NO_COPY_WAIT},
    {"no-copy-barrier", run_product, MUTATION_NO_COPY_BARRIER},
    {"unawaited-copy", run_product, MUTATION_UNAWAITED_COPY},
    {"swapped-fragment", run_product, MUTATION_SWAPPED_FRAGMENT},
    {"wrong-row", run_product, MUTATION_WRONG_ROW},
    {"not-transposed", run_product, MUTATION_NOT_TRANSPOSED},
    {"streams", run_streams, STREAMS_CORRECT},
    {"no-stream-wait", run_streams, STREAMS_NO_WAIT},
    {"no-read-wait", run_streams, STREAMS_NO_READ_WAIT},
    {"early-record", run_streams, STREAMS_EARLY_RECORD},
    {"reused-buffer", run_streams, STREAMS_REUSED_BUFFER},
    {"no-sync", run_streams, STREAMS_NO_SYNC},
    {"graph", run_graph, GRAPH_CORRECT},
    {"no-wait-in-graph", run_graph, GRAPH_NO_WAIT},
    {"host", run_host, HOST_CORRECT},
    {"host-touches-device", run_host, HOST_TOUCHES_DEVICE},
    {"host-pointer-argument", run_host, HOST_POINTER_ARGUMENT},
    {"freed-argument", run_host, HOST_FREED_ARGUMENT},
    {"copy-too-long", run_host, HOST_COPY_TOO_LONG},
    {"odd-block", run_host, HOST_ODD_BLOCK},
};

int main(int count, char **arguments)
{
    for (size_t i = 0; count == 2 && i < sizeof mutants / sizeof mutants[0]; i++)
        if (strcmp(arguments[1], mutants[i].name) == 0) {
            for (size_t order = 0; order < order_count(); order++) {
                order_set(order);
                mutants[i].run(mutants[i].mutation);
            }
            return 0;
        }
    fprintf(stderr, "cuda_mutant: no such mutant\n");
    return 2;
}
