/*
 * rehearsal — a run of a configuration on a device without memory and among ranks without others:
 * what one rank of so many will take, move and compute, told before anything is taken.
 *
 * The parts are opened by the functions that open them for the run itself, and two steps are made
 * by the same calls, on a null device (ops_null.h) and a null communicator (comm_null.h): what is
 * counted is what the run will ask for, whoever asks. Nothing is read but the datasets' indexes;
 * the folder of the run is not looked at. Where the batch grows by epoch (epochs.h), each stretch
 * of one batch is rehearsed as the run makes it, one after another: memory is the most of all of
 * them, and a step one of the last. Of local updates a step has its part of the mean of weights
 * that comes after so many.
 */
#ifndef MILLRACE_TRAINER_PLAN_REHEARSAL_H
#define MILLRACE_TRAINER_PLAN_REHEARSAL_H

#include "base/err.h"
#include "base/log.h"
#include "io/io.h"
#include "loader/loader.h"
#include "trainer/config/config.h"
#include "trainer/ops/null/ops_null.h"
#include "trainer/report/usage.h"

struct rehearsal_options {
    const struct train_config *config; /* as trainer.h's: its batch is resolved */
    struct io *io;
    const struct log *log;
    const struct ops_null_model *model; /* of what backend it is a rehearsal; see rehearsal_model */
    uint32_t rank, ranks;
    uint32_t local_ranks; /* on this rank's machine, as on each other one; divides ranks */
    bool by_nccl;         /* weights and gradients go from GPU to GPU; see rehearsal_is_by_nccl */
    /* Where the data is open already: what it is. Then the loaders' memory is not counted. NULL:
     * the datasets are looked at. */
    const struct loader_shape *shape;
    uint64_t epoch;     /* then: the run goes on in it, and what was before is not rehearsed */
    bool is_evaluation; /* without gradients and optimizer */
    bool memory_only;   /* no steps are made: neither bytes nor operations are told */
};

struct rehearsal {
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
int rehearsal_model(const struct train_config *config, const struct ops_null_model **ret_model,
                    struct err *err);

/* Would they, on a machine as this one? Without a GPU it is believed that each rank will have one.
 * NCCL's own memory is not told. */
bool rehearsal_is_by_nccl(const struct train_config *config, const struct ops_null_model *model,
                          uint32_t local_ranks);

/* -EINVAL as the run itself would fail. */
int rehearse(const struct rehearsal_options *options, struct rehearsal *ret_rehearsal,
             struct err *err);

#endif
