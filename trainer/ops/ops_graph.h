/*
 * ops_graph — a repeated part of a step. If the device can record graphs (device.h), one host call
 * launches hundreds of operations.
 *
 *     ops_graph_init(&graph, ops, variants_count, err);
 *     ops_graph_run(&graph, variant, queue_pass, &pass, err);
 *
 * The queued operations, including addresses and numbers, must depend on the variant alone; all
 * other inputs lie in device memory. The very first run is queued directly, so that lazily created
 * resources exist. Afterwards, the first run of each variant is recorded and later runs launch the
 * recording. Without support for graphs, every run is queued directly. The bits are the same.
 */
#ifndef MILLRACE_TRAINER_OPS_OPS_GRAPH_H
#define MILLRACE_TRAINER_OPS_OPS_GRAPH_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

/* Owner thread. */
struct ops_graph {
    struct ops *ops;              /* borrowed; its stream is recorded */
    struct device_graph **graphs; /* [variants_count], NULL until recorded */
    uint32_t variants_count;
    bool has_run;
};

/* -ENOMEM. */
int ops_graph_init(struct ops_graph *graph, struct ops *ops, uint32_t variants_count,
                   struct err *err);
/* No run may be in progress. Safe on a zeroed graph. */
void ops_graph_deinit(struct ops_graph *graph);
/* Queues the work that queue(context) queues. If recording fails: -EIO, or the failure of the
 * ops. */
int ops_graph_run(struct ops_graph *graph, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err);

#endif
