/*
 * dry_run — simulates one rank of a run to count the memory, traffic and operations it would need.
 *
 * Opens the parts of a real run and executes two steps on a null device (ops_null.h) and a null
 * communicator (comm_null_open). Reads only the datasets' indexes. If the batch grows by epoch
 * (epochs.h), simulates each phase of constant batch size: memory is the maximum over the phases,
 * and the counted step is one of the last phase. With local updates, a step includes its share of
 * weight averaging.
 */
#ifndef MILLRACE_TRAINER_PLAN_DRY_RUN_H
#define MILLRACE_TRAINER_PLAN_DRY_RUN_H

#include "base/err.h"
#include "base/log.h"
#include "io/io.h"
#include "loader/loader.h"
#include "trainer/config/config.h"
#include "trainer/ops/null/ops_null.h"
#include "trainer/report/usage.h"

struct trainer_dry_run_options {
    const struct train_config *config; /* with batch.accumulation resolved */
    struct io *io;
    const struct log *log;
    const struct ops_null_model *backend;
    uint32_t rank, ranks;
    uint32_t local_ranks; /* per machine; divides ranks */
    bool uses_nccl;       /* for weights and gradients */
    /* NULL: open the datasets. Otherwise, the memory of loaders is not counted. */
    const struct loader_shape *shape;
    uint64_t epoch; /* with shape: skip the phases before it */
    bool is_evaluation;
    bool memory_only; /* simulate no steps: count neither traffic nor operations */
};

struct trainer_dry_run {
    struct usage usage;      /* maximum of each peak over all phases */
    uint64_t device_bytes;   /* maximum over all phases */
    double flops;            /* per step, of matrix products, including recomputation */
    uint64_t transfer_bytes; /* per step, between host and device memory */
    uint64_t file_bytes;     /* written by this rank per checkpoint */
    uint64_t parameter_count;
    uint64_t steps;
    uint64_t micros_count;     /* per step */
    struct loader_shape shape; /* without its strings */
};

/* Gets the backend of the configured device; `auto` resolves as on this machine. -ENODEV if this
 * build lacks CUDA. */
int trainer_dry_run_backend(const struct train_config *config,
                            const struct ops_null_model **ret_backend, struct err *err);

/* Whether weights and gradients would use NCCL on machines like this one. If it has no GPU, assumes
 * one per rank. NCCL's own memory is not counted. */
bool trainer_dry_run_uses_nccl(const struct train_config *config,
                               const struct ops_null_model *backend, uint32_t local_ranks);

/* -EINVAL if the run itself would return -EINVAL. */
int trainer_dry_run(const struct trainer_dry_run_options *options,
                    struct trainer_dry_run *ret_dry_run, struct err *err);

#endif
