/*
 * trainer — trains a model: starts or resumes a run, writes checkpoints and metrics.
 *
 *     config_load("train.yaml", sets, sets_count, &config, err);
 *     struct trainer_options options = {
 *         .config = &config, .io = io, .stop = &flag, .log = &log, .report = show};
 *     trainer_run(&options, &result, err);
 *
 * Prints nothing and handles no signals. When the program sets *stop, the run saves after the
 * current step and returns TRAINER_STOPPED.
 */
#ifndef MILLRACE_TRAINER_TRAINER_H
#define MILLRACE_TRAINER_TRAINER_H

#include "base/err.h"
#include "loader/loader.h"
#include "trainer/control/trainer_options.h"
#include "trainer/report/range.h"

#include <stdbool.h>
#include <stdint.h>

enum trainer_end {
    TRAINER_DONE,
    TRAINER_STOPPED,     /* on request */
    TRAINER_OUT_OF_TIME, /* run.max_time passed; only the first rank returns this */
};

struct trainer_result {
    enum trainer_end end;
    uint64_t step; /* saved */
    bool has_evaluation;
    double val_loss, val_accuracy;
    struct trainer_steps profiled_steps; /* the steps of options.profile that ran */
    uint64_t profiled_ns;               /* includes evaluations and checkpoints after those steps */
    char trace_path[IO_PATH_BYTES_MAX]; /* trace file; "": none */
    struct range_time range_times[RANGE_COUNT]; /* of the profiled steps */
    uint64_t set_digest, sequence_digest;       /* over the data of all ranks */
    enum loader_stage data_limit;               /* slowest stage; the consumer is training */
    char checkpoint_path[IO_PATH_BYTES_MAX + 32];
};

/* Blocks until the run is done or stopped; TRAINER_DONE immediately if its last step is saved. A
 * failure of one rank fails all: -EREMOTEIO or -ECONNABORTED on ranks that did not cause it. The
 * communicator can then only be closed. */
int trainer_run(const struct trainer_options *options, struct trainer_result *ret_result,
                struct err *err);

struct trainer_evaluation {
    uint64_t valid_count; /* images or tokens */
    double loss;          /* mean, nats */
    double accuracy;      /* top-1, 0..1 */
    double seconds;       /* excludes opening data and model */
};

/* Evaluates the weights at `from`, as for model.init, on data.val. Blocks. -ECANCELED: stopped on
 * request. */
int trainer_evaluate(const struct trainer_options *options, const char *from,
                     struct trainer_evaluation *ret_evaluation, struct err *err);

#endif
