/*
 * ops_graph — a part of a step that is queued again and again. Where the device can record a graph
 * (device.h), the host pays one call for hundreds of operations.
 *
 *     ops_graph_init(&graph, ops, variants_count, err);
 *     ops_graph_run(&graph, variant, queue_pass, &pass, err);
 *
 * What is queued, addresses and numbers included, depends on the variant alone; whatever else
 * changes lies in device memory. The very first run is queued directly, so that lazily made
 * resources exist; from then on the first run of each variant is recorded and later runs launch the
 * recording. Where the device cannot record, every run is queued directly. The bits are the same.
 */
#ifndef MILLRACE_TRAINER_OPS_OPS_GRAPH_H
#define MILLRACE_TRAINER_OPS_OPS_GRAPH_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

/* Owner thread. */
struct ops_graph {
    struct ops *ops;              /* borrowed: what is queued on its stream is recorded */
    struct device_graph **graphs; /* [variants_count], NULL before they are recorded */
    uint32_t variants_count;
    bool has_run;
};

/* -ENOMEM. */
int ops_graph_init(struct ops_graph *graph, struct ops *ops, uint32_t variants_count,
                   struct err *err);
/* Nothing of it is in progress. Safe on a zeroed replay. */
void ops_graph_deinit(struct ops_graph *graph);
/* Queues what queue(context) queues. -EIO, or what the ops failed with, where it could not be
 * recorded. */
int ops_graph_run(struct ops_graph *graph, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err);

#endif
