/*
 * ops_graph — records and launches a repeated part of a step. If the device supports graphs
 * (device.h), one host call launches hundreds of operations.
 *
 *     ops_graph_init(&graph, ops, variants_count, err);
 *     ops_graph_run(&graph, variant, queue_pass, &pass, err);
 *
 * The queued operations, with their addresses and host values, may depend only on the variant; all
 * other inputs are in device memory. The very first run is queued directly, so that resources
 * created lazily exist before a recording. After that, the first run of each variant is recorded
 * and later runs launch the recording. Without graphs every run is queued directly. Results are
 * bit-identical either way.
 */
#ifndef MILLRACE_TRAINER_OPS_OPS_GRAPH_H
#define MILLRACE_TRAINER_OPS_OPS_GRAPH_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct ops_graph {
    struct ops *ops;              /* borrowed */
    struct device_graph **graphs; /* [variants_count], NULL until recorded */
    uint32_t variants_count;
    bool has_run;
};

/* -ENOMEM. */
int ops_graph_init(struct ops_graph *graph, struct ops *ops, uint32_t variants_count,
                   struct err *err);
/* Safe on a zeroed graph. No run may be in progress. */
void ops_graph_deinit(struct ops_graph *graph);
/* Queues the work of queue(context). -EIO if recording fails, or the failure of the ops. */
int ops_graph_run(struct ops_graph *graph, uint32_t variant, void (*queue)(void *context),
                  void *context, struct err *err);

#endif
