/*
 * dry_run — runs a configuration on a device without memory, as one of several ranks without the
 * others: counts what that rank will take, move and compute, without taking any of it.
 *
 * The functions that open the parts of a run open them here too, and two steps make the same calls,
 * on a null device (ops_null.h) and a null communicator (comm_null.h). What is counted is therefore
 * what the run will request. Only the datasets' indexes are read; the run's folder is ignored. If
 * the batch grows by epoch (epochs.h), each phase of constant batch size is simulated in order:
 * memory is the maximum over the phases, and the step is one of the last phase. With local updates
 * a step includes its share of the periodic averaging of weights.
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
    const struct train_config *config; /* as trainer.h's: its batch is resolved */
    struct io *io;
    const struct log *log;
    const struct ops_null_model
        *model; /* of what backend it is a dry run; see trainer_dry_run_model */
    uint32_t rank, ranks;
    uint32_t local_ranks; /* on this rank's machine, as on each other one; divides ranks */
    bool by_nccl; /* weights and gradients go from GPU to GPU; see trainer_dry_run_is_by_nccl */
    /* Where the data is open already: what it is. Then the loaders' memory is not counted. NULL:
     * the datasets are looked at. */
    const struct loader_shape *shape;
    uint64_t epoch;     /* then: the run goes on in it, and what was before is not simulated */
    bool is_evaluation; /* without gradients and optimizer */
    bool memory_only;   /* no steps are made: neither bytes nor operations are told */
};

struct trainer_dry_run {
    struct usage usage;    /* of each peak the highest of any stretch */
    uint64_t device_bytes; /* of the device's own memory, in the stretch that takes most of it */
    double
        flops; /* of a step: of products, 2 a multiplication; what is computed again counts again */
    uint64_t
        /* of a step, between the host's memory and the device's; 0 where they are one */
        crossed_bytes;
    uint64_t file_bytes;       /* what this rank writes of each checkpoint */
    uint64_t parameter_count;  /* of the model */
    uint64_t steps;            /* of the run */
    uint64_t micros_count;     /* of a step */
    struct loader_shape shape; /* without its texts */
};

/* For the configuration's device, `auto` as it would be chosen here. -ENODEV where this build does
 * not know a GPU. */
int trainer_dry_run_model(const struct train_config *config,
                          const struct ops_null_model **ret_model, struct err *err);

/* Would they, on a machine as this one? Without a GPU it is believed that each rank will have one.
 * NCCL's own memory is not told. */
bool trainer_dry_run_is_by_nccl(const struct train_config *config,
                                const struct ops_null_model *model, uint32_t local_ranks);

/* -EINVAL as the run itself would fail. */
int trainer_dry_run(const struct trainer_dry_run_options *options,
                    struct trainer_dry_run *ret_dry_run, struct err *err);

#endif
