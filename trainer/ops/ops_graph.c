/*
 * ops_graph — see ops_graph.h.
 */
#include "trainer/ops/ops_graph.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int ops_graph_init(struct ops_graph *graph, struct ops *ops, uint32_t variants_count,
                   struct err *err)
{
    *graph = (struct ops_graph){.ops = ops, .variants_count = variants_count};
    graph->graphs = calloc(variants_count, sizeof(struct device_graph *));
    return graph->graphs
               ? 0
               : err_set(err, -ENOMEM, "out of memory for %u graphs", (unsigned)variants_count);
}

void ops_graph_deinit(struct ops_graph *graph)
{
    for (uint32_t i = 0; i < graph->variants_count && graph->graphs; i++)
        if (graph->graphs[i])
            graph->ops->device->ops->graph_close(graph->ops->device, graph->graphs[i]);
    free(graph->graphs);
    *graph = (struct ops_graph){0};
}

static int record(struct ops_graph *graph, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err)
{
    struct ops *ops = graph->ops;
    const struct device_ops *device = ops->device->ops;
    int status = device->graph_begin(ops->device, ops->stream, err);
    if (status)
        return status;
    queue(context);
    status = device->graph_end(ops->device, ops->stream, &graph->graphs[variant], err);
    int first = status ? ops->table->status(ops, err) : 0; /* keep the original cause */
    return first ? first : status;
}

int ops_graph_run(struct ops_graph *graph, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err)
{
    assert(variant < graph->variants_count);
    struct ops *ops = graph->ops;
    const struct device_ops *device = ops->device->ops;
    if (!graph->has_run || !device->graph_begin) {
        graph->has_run = true;
        queue(context);
        return 0;
    }
    int status = graph->graphs[variant] ? 0 : record(graph, variant, queue, context, err);
    return status ? status
                  : device->graph_launch(ops->device, graph->graphs[variant], ops->stream, err);
}
