/*
 * run_update — from micro-batch gradients to new weights: reduction, optimizer, policies.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_UPDATE_H
#define MILLRACE_TRAINER_RUN_RUN_UPDATE_H

#include "comm/comm_wrapper.h"
#include "trainer/ops/ops_graph.h"
#include "trainer/ops/scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/reduction/rank_sum.h"
#include "trainer/parallel/reduction/reduction.h"

/* Zero initially. Owner thread. */
struct run_update {
    struct reduction *reduction;
    struct ops_graph sum_squares; /* of squared gradients */
    struct optimizer optimizer;
    struct schedule schedule;
    struct scaler scaler;
    struct rank_sum averaging;           /* of local updates */
    bool weights_differ, moments_differ; /* among ranks, since the last averaging */
    struct comm_traffic step_traffic,
        averaging_traffic; /* of the newest step; of the last averaging */
};

#endif
