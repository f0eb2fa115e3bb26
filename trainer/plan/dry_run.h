/*
 * dry_run — runs a configuration on a device without memory, as a single rank without the others:
 * counts the memory, traffic and operations of that rank without using any.
 *
 * The parts of the run are opened by the same functions, and two steps make the same calls, on a
 * null device (ops_null.h) and a null communicator (comm_null_open). The counts are therefore what
 * the run will request. Only the datasets' indexes are read; the run's folder is ignored. If the
 * batch grows by epoch (epochs.h), each phase of constant batch size is simulated in order: memory
 * is the maximum over the phases, and the step is one of the last phase. With local updates a step
 * includes its share of the periodic averaging of weights.
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
    const struct train_config *config; /* as in trainer.h: its batch is resolved */
    struct io *io;
    const struct log *log;
    /* The backend to simulate; see trainer_dry_run_model. */
    const struct ops_null_model *model;
    uint32_t rank, ranks;
    uint32_t local_ranks; /* per machine; divides ranks */
    /* Weights and gradients travel from GPU to GPU; see trainer_dry_run_is_by_nccl. */
    bool by_nccl;
    /* The shape of data that is already open; the memory of loaders is then not counted. NULL: open
     * the datasets. */
    const struct loader_shape *shape;
    uint64_t epoch;     /* with shape: the epoch to resume in; earlier phases are not simulated */
    bool is_evaluation; /* without gradients and optimizer */
    bool memory_only;   /* simulate no steps: neither traffic nor operations are counted */
};

struct trainer_dry_run {
    struct usage usage;    /* maximum of each peak over all phases */
    uint64_t device_bytes; /* device memory, maximum over all phases */
    /* Of matrix products in a step, 2 per multiply-add; recomputation counts again. */
    double flops;
    /* Of a step, between host and device memory; 0 if they are the same. */
    uint64_t crossed_bytes;
    uint64_t file_bytes;       /* that this rank writes per checkpoint */
    uint64_t parameter_count;  /* of the model */
    uint64_t steps;            /* of the run */
    uint64_t micros_count;     /* per step */
    struct loader_shape shape; /* its strings are NULL */
};

/* The model for the configured device; `auto` is resolved as on this machine. -ENODEV if this build
 * does not support GPUs. */
int trainer_dry_run_model(const struct train_config *config,
                          const struct ops_null_model **ret_model, struct err *err);

/* Whether weights and gradients would travel by NCCL on a machine like this one. Without a GPU
 * here, assumes that each rank will have one. NCCL's own memory is not counted. */
bool trainer_dry_run_is_by_nccl(const struct train_config *config,
                                const struct ops_null_model *model, uint32_t local_ranks);

/* -EINVAL if the run itself would fail so. */
int trainer_dry_run(const struct trainer_dry_run_options *options,
                    struct trainer_dry_run *ret_dry_run, struct err *err);

#endif
