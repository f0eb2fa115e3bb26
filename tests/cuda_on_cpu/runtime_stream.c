/*
 * runtime_stream — the CUDA runtime's stream and event functions that millrace uses.
 */
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/status.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *stream)
{
    return status_set(queue_stream_open(true, stream));
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return status_set(queue_stream_open(!(flags & cudaStreamNonBlocking), stream));
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags,
                                                   int priority)
{
    (void)priority; /* a performance hint */
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
    return status_set(queue_stream_close(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream)
{
    return status_set(queue_wait_stream(stream));
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
    return status_set(queue_stream_query(stream));
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                          unsigned int flags)
{
    (void)flags;
    return status_set(queue_wait_event(stream, event));
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event)
{
    return status_set(queue_event_open(true, event));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return status_set(queue_event_open(!(flags & cudaEventDisableTiming), event));
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
    return status_set(queue_event_close(event));
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return status_set(queue_event_record(event, stream));
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
    return status_set(queue_event_query(event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
    return status_set(queue_event_wait(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return status_set(queue_event_elapsed(start, end, ms));
}

struct host_call {
    cudaHostFn_t function;
    void *argument;
};

static void run_host_call(void *data)
{
    struct host_call *call = data;
    call->function(call->argument);
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    struct host_call *call = malloc(sizeof *call);
    if (!call)
        return status_set(cudaErrorMemoryAllocation);
    *call = (struct host_call){function, argument};
    return status_set(queue_add(stream, (struct queue_work){run_host_call, free, call}));
}
