/*
 * reduction_case — helpers for the reduction tests: oddly shaped parameters on real ranks, and
 * steps with synthetic gradients.
 */
#ifndef MILLRACE_TESTS_TRAINER_REDUCTION_CASE_H
#define MILLRACE_TESTS_TRAINER_REDUCTION_CASE_H

#include "trainer/parallel/reduction/reduction.h"

/* The gradient of one element of the trained parameters, in that step and micro-batch. */
typedef float sum_case_gradient(uint64_t step, uint64_t micro, uint64_t element);

struct sum_case_plan {
    enum reduction_kind kind;
    bool each;
    uint32_t shards;
    uint64_t micros, bucket_bytes, keep_below;
    enum dtype wire;
    struct powersgd_options powersgd;
    sum_case_gradient *gradient;
};

struct sum_case {
    struct sum_case_plan plan;
    struct device *device;
    struct ops *ops;
    struct params params;
    struct partition partition;
    struct reduction *reduction;
    uint64_t used_bytes; /* bytes in use before the reduction was opened */
};

/* Collective. */
void sum_case_open(struct sum_case *sum_case, const struct sum_case_plan *plan);
void sum_case_close(struct sum_case *sum_case); /* asserts that all memory is freed */
uint64_t sum_case_used_bytes(const struct sum_case *sum_case);
/* Runs a step until its parts are summed. */
void sum_case_step(struct sum_case *sum_case, uint64_t step);

#endif
