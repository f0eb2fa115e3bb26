/*
 * reduction_case — helpers of the reduction tests: parameters of odd shapes on real ranks, and
 * steps with synthetic gradients.
 */
#ifndef MILLRACE_TESTS_TRAINER_REDUCTION_CASE_H
#define MILLRACE_TESTS_TRAINER_REDUCTION_CASE_H

#include "trainer/parallel/reduction/reduction.h"

/* The gradient of an element of the trained parameters, for that step and micro-batch. */
typedef float scene_gradient(uint64_t step, uint64_t micro, uint64_t element);

struct scene_plan {
    enum reduction_kind kind;
    bool each;
    uint32_t shards;
    uint64_t micros, bucket_bytes, keep_below;
    enum dtype wire;
    struct powersgd_options powersgd;
    scene_gradient *gradient;
};

struct scene {
    struct scene_plan plan;
    struct device *device;
    struct ops *ops;
    struct params params;
    struct partition partition;
    struct reduction *reduction;
    uint64_t used_bytes; /* before the reduction */
};

/* Collective. */
void scene_open(struct scene *scene, const struct scene_plan *plan);
void scene_close(struct scene *scene); /* asserts that all memory is freed */
uint64_t scene_used_bytes(const struct scene *scene);
/* Runs a step until the parts are summed. */
void scene_step(struct scene *scene, uint64_t step);

#endif
