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
    struct ops_graph sums; /* of squared gradients */
    struct optimizer optimizer;
    struct schedule schedule;
    struct scaler scaler;
    struct rank_sum mean; /* averages weights and moments of local updates; otherwise unused */
    /* Whether the ranks' weights or moments may have diverged since the last averaging. */
    bool weights_differ, moments_differ;
    struct comm_traffic step_traffic, mean_traffic; /* of the newest step; of the last averaging */
};

#endif
