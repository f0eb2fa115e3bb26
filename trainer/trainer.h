/*
 * trainer — a run: data in, steps, checkpoints and metrics out, from wherever the last one stopped.
 *
 *     config_load("train.yaml", sets, sets_count, &config, err);
 *     struct trainer_options options = {
 *         .config = &config, .io = io, .stop = &flag, .log = &log, .report = show};
 *     trainer_run(&options, &result, err);
 *
 * The library prints nothing and handles no signals: the owner of the program sets *stop, the run
 * saves at the end of the step in progress and returns TRAINER_STOPPED.
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
    TRAINER_OUT_OF_TIME, /* for run.max_time; the first rank alone tells it from TRAINER_STOPPED */
};

struct trainer_result {
    enum trainer_end end;
    uint64_t step; /* the last one that is done and saved */
    bool evaluated;
    double val_loss, val_accuracy;         /* the last evaluation's */
    struct trainer_steps profiled;         /* those of options.profile that were made */
    uint64_t profiled_ns;                  /* with what came after them: evaluations, checkpoints */
    char trace[IO_PATH_BYTES_MAX];         /* the file that was written; "": none */
    struct range_time ranges[RANGE_COUNT]; /* of them */
    uint64_t once, order; /* the training loaders' digests at that step, of all ranks */
    enum loader_stage
        data_limit; /* which stage of it the others waited for; the consumer is the training */
    char checkpoint[IO_PATH_BYTES_MAX + 32]; /* the newest one */
};

/* Blocks until the run is done or stopped. Also TRAINER_DONE, at once, where its last step was
 * saved before. It fails on all ranks where it fails on one: -EREMOTEIO or -ECONNABORTED on those
 * that only heard of it. Then the communicator may be ended, and is only to be closed. */
int trainer_run(const struct trainer_options *options, struct trainer_result *ret_result,
                struct err *err);

struct trainer_evaluation {
    uint64_t valid_count; /* images, tokens */
    double loss;          /* mean, nats */
    double accuracy;      /* top-1, 0..1 */
    double seconds;       /* of the evaluation, loading left out */
};

/* The model that the configuration describes, with the weights at `from` (a checkpoint, a full
 * file, or what model.init takes), over data.val. Blocks; -ECANCELED where *stop came to be set. */
int trainer_evaluate(const struct trainer_options *options, const char *from,
                     struct trainer_evaluation *ret_evaluation, struct err *err);

#endif
