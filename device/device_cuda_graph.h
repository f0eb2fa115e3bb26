/*
 * device_cuda_graph — the graph hooks of device.h for GPUs, as CUDA graphs. Internal to device/.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CUDA_GRAPH_H
#define MILLRACE_DEVICE_DEVICE_CUDA_GRAPH_H

#include "device/device_cuda.h"

/* Makes device current, then calls the CUDA runtime. 0, or an error of device_cuda_status. */
#define DEVICE_CUDA_CALL(device, call, what, err)                                                  \
    ({                                                                                             \
        int used_ = device_cuda_use(device, err);                                                  \
        used_ ? used_ : device_cuda_status(device, (int)(call), what, err);                        \
    })

int device_cuda_graph_begin(struct device *device, struct device_stream *stream, struct err *err);
int device_cuda_graph_end(struct device *device, struct device_stream *stream,
                          struct device_graph **ret_graph, struct err *err);
int device_cuda_graph_launch(struct device *device, struct device_graph *graph,
                             struct device_stream *stream, struct err *err);
void device_cuda_graph_close(struct device *device, struct device_graph *graph);

#endif
