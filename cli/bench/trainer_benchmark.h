/*
 * trainer_benchmark — measures a run's steps, and the matrix products in them alone, for `millrace
 * bench train`.
 *
 *     trainer_benchmark_run(&options, &job, &speed, err);      // all ranks, with the same job
 *
 * It is a run of the configuration, from its data to the update, without what comes between steps:
 * no lines, no evaluation, no checkpoint.
 */
#ifndef MILLRACE_CLI_BENCH_TRAINER_BENCHMARK_H
#define MILLRACE_CLI_BENCH_TRAINER_BENCHMARK_H

#include "cli/bench/io_benchmark.h"
#include "trainer/ops/time_parts.h"
#include "trainer/trainer.h"

/* Immutable. */
struct trainer_benchmark_job {
    uint64_t warmup_steps; /* that do not count */
    uint64_t steps;        /* that do; at least 1 */
    uint64_t products_ns;  /* products alone go on for so long, before the run */
};

struct trainer_benchmark {
    struct io_benchmark took; /* of all steps: time, and CPU time of the whole process */
    uint64_t median_ns;       /* of one step */
    uint64_t samples_count, tokens_count; /* of all ranks; tokens: 0 where the model has none */
    struct time_spent time;               /* of this rank; it adds up to that of all steps */
    bool queues;                          /* the device is not the host, see time_parts.h */
    unsigned threads;                     /* that compute on this rank; 0: a GPU does */
    double flops; /* of this rank's products in all steps (model.h's model_flops) */
    /* Of this rank: products of one size alone, by as many threads, all ranks at once, as if
     * nothing else took their time; a GPU's peak. 0: not known. */
    double limit_flops_per_second;
    /* Of gradients between ranks, in one step, on the mean: with nothing to hide behind; and what a
     * step waited for on the rank that waited least, since who comes first waits for computation,
     * too. 0: one rank. */
    uint64_t exchange_ns, exchange_waited_ns;
    uint64_t peak_process_bytes; /* of the host's memory, the most that there was until the end */
};

/* Blocks. -EINTR: stopped, as options say; else as trainer_run. resume and profile are not looked
 * at; the run's folder is as trainer_run would make it, without checkpoints. */
int trainer_benchmark_run(const struct trainer_options *options,
                          const struct trainer_benchmark_job *job,
                          struct trainer_benchmark *ret_speed, struct err *err);

#endif
