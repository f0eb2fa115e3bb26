/*
 * runtime_graph — the CUDA runtime's graph functions that millrace uses: graphs are captured from
 * streams and run unchanged.
 */
#include "tests/cuda_on_cpu/capture.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

/* A graph and its executable form are both the capture. */
struct CUgraph_st {
    struct capture *capture;
};

struct CUgraphExec_st {
    struct capture *capture;
};

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return status_set(queue_capture_begin(stream, mode));
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct capture *capture = NULL;
    cudaError_t status = queue_capture_end(stream, &capture);
    if (status != cudaSuccess)
        return status_set(status);
    struct CUgraph_st *made = malloc(sizeof *made);
    if (!made)
        abort();
    made->capture = capture;
    *graph = made;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream,
                                            enum cudaStreamCaptureStatus *status)
{
    *status =
        queue_is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           unsigned long long flags)
{
    (void)flags;
    struct CUgraphExec_st *made = malloc(sizeof *made);
    if (!made)
        abort();
    made->capture = capture_retain(graph->capture);
    *exec = made;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph)
{
    capture_release(graph->capture);
    free(graph);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    capture_release(exec->capture);
    free(exec);
    return cudaSuccess;
}

static void run_graph(void *data)
{
    capture_run(data);
}

static void release_graph(void *data)
{
    capture_release(data);
}

cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec, (void)stream; /* in CUDA, this only makes the first launch faster */
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return status_set(queue_add(
        stream, (struct queue_work){run_graph, release_graph, capture_retain(exec->capture)}));
}
