/*
 * trainer_benchmark — measures the steps of a run and, separately, matrix products.
 *
 *     trainer_benchmark_run(&options, &job, &result, err);      // all ranks, with the same job
 *
 * A step includes loading and the update, but no progress line, evaluation or checkpoint.
 */
#ifndef MILLRACE_CLI_BENCH_TRAINER_BENCHMARK_H
#define MILLRACE_CLI_BENCH_TRAINER_BENCHMARK_H

#include "cli/bench/io_benchmark.h"
#include "trainer/ops/category_timer.h"
#include "trainer/trainer.h"

struct trainer_benchmark_job {
    uint64_t warmup_steps; /* not measured */
    uint64_t steps;        /* measured; at least 1 */
    uint64_t products_ns;  /* for measuring matrix products before the run */
};

struct trainer_benchmark {
    struct io_benchmark totals;           /* times of all steps */
    uint64_t median_ns;                   /* of one step */
    uint64_t samples_count, tokens_count; /* of all ranks; tokens: 0 for images */
    struct category_times time;           /* of this rank; adds up to the time of all steps */
    bool is_async;                        /* the device is not the host (category_timer.h) */
    unsigned threads;                     /* for compute on this rank; 0: a GPU */
    double flops; /* of this rank's matrix products in all steps (model_flops) */
    /* This rank's rate of matrix products by CPU time, with the same threads and all ranks at once;
     * or the GPU's peak rate. 0: unknown. */
    double limit_flops_per_second;
    /* Means per step: an exchange that overlaps no computation, and the shortest wait of any rank
     * for exchanges; other ranks also wait for its computation. 0: one rank. */
    uint64_t exchange_ns, exchange_waited_ns;
    uint64_t peak_process_bytes; /* of host memory */
};

/* Blocks. Ignores options.resume and profile. Creates the run's folder, without checkpoints.
 * -EINTR: stopped on request; other errors as from trainer_run. */
int trainer_benchmark_run(const struct trainer_options *options,
                          const struct trainer_benchmark_job *job,
                          struct trainer_benchmark *ret_result, struct err *err);

#endif
