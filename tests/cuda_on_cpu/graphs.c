/*
 * graphs — tests that a captured graph can be launched many times, across streams, in any order
 * that its events allow, and that uncapturable calls are refused, as on a GPU.
 */
#include "tests/cuda_on_cpu/cuda_ok.h"
#include "tests/cuda_on_cpu/mutants.h"
#include "tests/cuda_on_cpu/order.h"

#include <string.h>

enum { N = 64, LAUNCHES = 4 };

struct streams {
    cudaStream_t main, side;
    cudaEvent_t fork, join;
    float *a, *b; /* on the device */
    float *in, *out;
};

static struct streams streams_open(void)
{
    struct streams s;
    cuda_ok(cudaStreamCreateWithFlags(&s.main, cudaStreamNonBlocking));
    cuda_ok(cudaStreamCreateWithFlags(&s.side, cudaStreamNonBlocking));
    cuda_ok(cudaEventCreateWithFlags(&s.fork, cudaEventDisableTiming));
    cuda_ok(cudaEventCreateWithFlags(&s.join, cudaEventDisableTiming));
    cuda_ok(cudaMalloc((void **)&s.a, N * sizeof(float)));
    cuda_ok(cudaMalloc((void **)&s.b, N * sizeof(float)));
    cuda_ok(cudaHostAlloc((void **)&s.in, N * sizeof(float), 0));
    cuda_ok(cudaHostAlloc((void **)&s.out, 2 * N * sizeof(float), 0));
    return s;
}

static void streams_close(struct streams *s)
{
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaFree(s->a));
    cuda_ok(cudaFree(s->b));
    cuda_ok(cudaFreeHost(s->in));
    cuda_ok(cudaFreeHost(s->out));
    cuda_ok(cudaEventDestroy(s->fork));
    cuda_ok(cudaEventDestroy(s->join));
    cuda_ok(cudaStreamDestroy(s->main));
    cuda_ok(cudaStreamDestroy(s->side));
    cudaGetLastError();
}

/* b = a on the side stream, while the main stream uses neither; then a = 2 a + 1 and b = 2 b +
 * 3. */
static cudaGraphExec_t capture_step(const struct streams *s)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    cuda_ok(cudaStreamBeginCapture(s->main, cudaStreamCaptureModeThreadLocal));
    cuda_ok(cudaStreamIsCapturing(s->main, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    cuda_ok(cudaMemcpyAsync(s->a, s->in, N * sizeof(float), cudaMemcpyHostToDevice, s->main));
    cuda_ok(cudaEventRecord(s->fork, s->main));
    cuda_ok(cudaStreamWaitEvent(s->side, s->fork, 0));
    cuda_ok(cudaMemcpyAsync(s->b, s->a, N * sizeof(float), cudaMemcpyDeviceToDevice, s->side));
    cuda_ok(cudaEventRecord(s->join, s->side));
    cuda_ok(mutants_double_and_add(s->b, 3, N, s->side));
    cuda_ok(cudaStreamWaitEvent(s->main, s->join, 0));
    cuda_ok(mutants_double_and_add(s->a, 1, N, s->main));
    cuda_ok(cudaMemcpyAsync(s->out, s->a, N * sizeof(float), cudaMemcpyDeviceToHost, s->main));
    cuda_ok(cudaEventRecord(s->join, s->side));
    cuda_ok(cudaStreamWaitEvent(s->main, s->join, 0));
    cuda_ok(cudaMemcpyAsync(s->out + N, s->b, N * sizeof(float), cudaMemcpyDeviceToHost, s->main));
    cuda_ok(cudaStreamEndCapture(s->main, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    cuda_ok(cudaGraphDestroy(graph));
    return exec;
}

static void a_graph_runs_once_per_launch(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct streams s = streams_open();
        for (int i = 0; i < N; i++)
            s.in[i] = -1;
        memset(s.out, 0, 2 * N * sizeof(float));
        cudaGraphExec_t exec = capture_step(&s);
        cuda_ok(cudaStreamSynchronize(s.main));
        for (int i = 0; i < 2 * N; i++)
            assert_true(s.out[i] == 0); /* captured work does not run */
        for (int launch = 0; launch < LAUNCHES; launch++) {
            for (int i = 0; i < N; i++)
                s.in[i] = (float)(launch * N + i);
            cuda_ok(cudaGraphLaunch(exec, s.main));
            cuda_ok(cudaStreamSynchronize(s.main));
            for (int i = 0; i < N; i++) {
                assert_true(s.out[i] == (float)(launch * N + i) * 2 + 1);
                assert_true(s.out[N + i] == (float)(launch * N + i) * 2 + 3);
            }
        }
        cuda_ok(cudaGraphExecDestroy(exec));
        streams_close(&s);
    }
}

static void assert_capture_end_returns(const struct streams *s, cudaError_t wanted)
{
    cudaGraph_t graph = NULL;
    assert_int_equal(cudaStreamEndCapture(s->main, &graph), wanted);
    assert_null(graph);
    cudaGetLastError();
}

static void uncapturable_calls_are_refused(void **state)
{
    (void)state;
    order_set(0);
    struct streams s = streams_open();
    void *memory = NULL;
    cuda_ok(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&memory, 100), cudaErrorStreamCaptureUnsupported);
    assert_capture_end_returns(&s, cudaErrorStreamCaptureInvalidated);

    cuda_ok(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    assert_int_not_equal(cudaStreamSynchronize(s.main), cudaSuccess);
    assert_capture_end_returns(&s, cudaErrorStreamCaptureInvalidated);

    /* a stream that joined the capture is not waited for */
    cuda_ok(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    cuda_ok(cudaEventRecord(s.fork, s.main));
    cuda_ok(cudaStreamWaitEvent(s.side, s.fork, 0));
    cuda_ok(mutants_double_and_add(s.b, 3, N, s.side));
    assert_capture_end_returns(&s, cudaErrorStreamCaptureUnjoined);

    /* an event recorded outside the capture */
    cuda_ok(cudaEventRecord(s.join, s.side));
    cuda_ok(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaStreamWaitEvent(s.main, s.join, 0), cudaErrorStreamCaptureIsolation);
    assert_capture_end_returns(&s, cudaErrorStreamCaptureInvalidated);
    streams_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_runs_once_per_launch),
        cmocka_unit_test(uncapturable_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
