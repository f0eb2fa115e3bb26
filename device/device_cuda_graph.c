/*
 * device_cuda_graph — see device_cuda_graph.h.
 *
 * A recording restricts calls only on its own thread, so loaders and checkpoint writers continue.
 */
#include "device/device_cuda_graph.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>

struct device_graph {
    cudaGraphExec_t handle;
};

int device_cuda_graph_begin(struct device *device, struct device_stream *stream, struct err *err)
{
    return DEVICE_CUDA_CALL(
        device,
        cudaStreamBeginCapture(device_cuda_stream(stream), cudaStreamCaptureModeThreadLocal),
        "beginning to record a stream", err);
}

/* Ends the recording even if it fails. */
int device_cuda_graph_end(struct device *device, struct device_stream *stream,
                          struct device_graph **ret_graph, struct err *err)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t handle = NULL;
    int status = device_cuda_use(device, err);
    cudaError_t code = cudaStreamEndCapture(device_cuda_stream(stream), &recorded);
    if (!status && code == cudaSuccess)
        code = cudaGraphInstantiate(&handle, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    int ended = device_cuda_status(device, (int)code, "recording a stream", status ? NULL : err);
    if (status || ended)
        return status ? status : ended;
    struct device_graph *graph = malloc(sizeof *graph);
    if (!graph) {
        cudaGraphExecDestroy(handle);
        return err_set(err, -ENOMEM, "out of memory for a graph");
    }
    graph->handle = handle;
    *ret_graph = graph;
    return 0;
}

int device_cuda_graph_launch(struct device *device, struct device_graph *graph,
                             struct device_stream *stream, struct err *err)
{
    return DEVICE_CUDA_CALL(device, cudaGraphLaunch(graph->handle, device_cuda_stream(stream)),
                            "a graph", err);
}

void device_cuda_graph_close(struct device *device, struct device_graph *graph)
{
    if (!graph)
        return;
    device_cuda_use(device, NULL);
    cudaGraphExecDestroy(graph->handle);
    free(graph);
}
