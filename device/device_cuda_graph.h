/*
 * device_cuda_graph — the graph hooks of device.h for a GPU: CUDA graphs. Internal to device/.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CUDA_GRAPH_H
#define MILLRACE_DEVICE_DEVICE_CUDA_GRAPH_H

#include "device/device.h"

int device_cuda_graph_begin(struct device *device, struct device_stream *stream, struct err *err);
int device_cuda_graph_end(struct device *device, struct device_stream *stream,
                          struct device_graph **ret_graph, struct err *err);
int device_cuda_graph_launch(struct device *device, struct device_graph *graph,
                             struct device_stream *stream, struct err *err);
void device_cuda_graph_close(struct device *device, struct device_graph *graph);

#endif
