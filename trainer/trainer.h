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
#include "base/log.h"
#include "comm/comm.h"
#include "io/io.h"
#include "loader/loader.h"
#include "trainer/config/config.h"
#include "trainer/report/range.h"
#include "trainer/report/usage.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct trace;

enum trainer_event {
    TRAINER_STARTED, /* text: what is about to run, a few lines, one a call */
    TRAINER_STEP,    /* each log.every steps */
    TRAINER_EVALUATED,
    TRAINER_SAVED,       /* a checkpoint became durable */
    TRAINER_SAVE_FAILED, /* text says why; the run goes on */
    TRAINER_STEPPED,     /* step of steps, after each; a device may be two steps behind */
    TRAINER_EVALUATING,  /* done of all, after each micro-batch of an evaluation */
    TRAINER_USED, /* at the end of the run, for each rank: usage tells what it took and moved */
    /* Both come from a thread of the run's own. text: what a request to stop waits for; that
     * run.stop_deadline passed, on which the owner ends the program, for the run may never end. */
    TRAINER_STOPPING,
    TRAINER_STOP_LATE,
    /* of several ranks this one ends the run, as text says; the others are told next */
    TRAINER_FAILED,
};

/* Of TRAINER_STEP: the machine of this rank when the line was made. What is not known there, or is
 * not there, is 0. */
struct trainer_device_metrics {
    double flops_per_second; /* of the model's products on this device, since the last report */
    double peak_share;       /* the same as a part of the device's peak (device/peak.h) */
    double
        utilization_share; /* of the device, by its driver: 0..1; below 0 where it is not known */
    uint64_t device_used_bytes; /* of its memory by this run */
    uint64_t
        /* by all that use it: this run, what the driver keeps for it, other programs */
        device_taken_bytes;
    uint64_t process_bytes; /* of the host's memory */
};

/* Fields not of the event are 0. Sums are over the whole global batch. */
struct trainer_report {
    enum trainer_event event;
    const char *text;     /* lives during the call */
    uint64_t step, steps; /* finished, of all */
    uint64_t done, all;   /* TRAINER_EVALUATING: samples, or windows of text, of all ranks */
    uint32_t epoch;       /* of the samples of that step, from 0 */
    double
        loss; /* mean over valid items since the last report, nats; of validation where evaluated */
    double accuracy; /* top-1 where evaluated, 0..1 */
    double lr, gradient_norm;
    double samples_per_second, tokens_per_second;
    double data_wait_share, checkpoint_wait_share; /* of the time since the last report, 0..1 */
    double remaining_seconds;
    struct time_spent
        /* of this rank since the last report: what of it is training adds up to elapsed_seconds */
        time;
    double elapsed_seconds;
    /* Where the device queues: how long it had forward, backward, reduce and update to do since the
     * last report, by its own clock; it may have waited for other ranks in them. */
    struct time_spent device_time;
    bool
        /* the device is not the host: time has TIME_QUEUE and TIME_DEVICE for what is computed */
        queues;
    struct trainer_device_metrics metrics;
    int rank; /* TRAINER_USED, as is what follows; lives during the call */
    const struct usage *usage;
};

/* Steps, the first being 1; 0: none. */
struct trainer_steps {
    uint64_t first, last;
};

struct trainer_options {
    const struct train_config
        *config; /* what its batch.accumulation stands for is found out by the run */
    struct comm
        *comm; /* the ranks of the run, each of which makes the same calls; borrowed. NULL: alone */
    /* this one's place among those of its machine, by which it takes a GPU; -1: nobody says, which
     * is the first */
    int local_rank;
    enum config_resume resume;
    const char *resume_path; /* CONFIG_RESUME_PATH: a step, a folder of steps, or of a run */
    struct io *io;
    uint64_t began_ns;  /* by clock_now_ns, when the program began, for run.max_time; 0: now */
    uint64_t before_ns; /* what of run.max_time had passed by then, in earlier attempts */
    atomic_int *stop;   /* non-zero: save and return; NULL: never */
    const atomic_uint *stop_asks; /* how often that was asked for; NULL: not known */
    struct trainer_steps profile; /* measured by range, and told to a profiler that is attached */
    /* Of this rank, borrowed: all threads of the run add what they do in the steps of profile, and
     * it is written, with those of all ranks, to trace-FIRST-LAST.json in the run's folder. NULL:
     * none. */
    struct trace *trace;
    const struct log *log;
    /* On the first rank; on others only of failures that are their own. */
    void (*report)(void *context, const struct trainer_report *report);
    void *report_context;
};

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
