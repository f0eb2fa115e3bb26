/*
 * run_compute — the device, model stage and memory of this rank's passes.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_COMPUTE_H
#define MILLRACE_TRAINER_RUN_RUN_COMPUTE_H

#include "trainer/models/model.h"
#include "trainer/ops/ops_graph.h"
#include "trainer/parallel/weights.h"

/* Zero initially. Owner thread. */
struct run_compute {
    struct device *device;
    struct ops *ops;
    struct model *model;
    const struct params *params; /* owned by the model */
    struct model_stage stage;
    uint32_t shards_count;      /* of the optimizer's state; see strategy.h */
    struct partition partition; /* of the parameters among ranks */
    struct weights weights;
    struct model_activations activations;
    double *losses; /* device memory, like correct_flags; one entry per row of a micro-batch */
    uint8_t *correct_flags;
    struct ops_graph pass_graphs; /* of a micro-batch; variants by input buffer and gradient leaf */
};

int run_compute_allocate(struct run_compute *compute, bool is_training, struct err *err);
void run_compute_release(struct run_compute *compute); /* safe on a zeroed struct */

#endif
