/*
 * run_saving — the checkpoint folder of a run, its tensors, and the saver.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_SAVING_H
#define MILLRACE_TRAINER_RUN_RUN_SAVING_H

#include "base/str.h"
#include "ckpt/ckpt.h"
#include "trainer/run/parts/run_compute.h"
#include "trainer/run/parts/run_update.h"

/* Damaged checkpoints, which the run skips when it reopens. */
struct damaged_steps {
    uint64_t before_step;                /* resume from an earlier step; UINT64_MAX: any */
    char newest_path[IO_PATH_BYTES_MAX]; /* "": none */
};

/* Zero initially. */
struct run_tensors {
    struct ckpt_tensor *list;
    char *names; /* borrowed by list */
    uint64_t count;
};

/* Zero initially. Owner thread. */
struct run_saving {
    struct ckpt_saver *saver;
    struct run_tensors tensors;
    char folder[IO_PATH_BYTES_MAX];
    char run_id[17];
    struct str numerics_id; /* of all ranks, if parallel.mixed allows them to differ */
    struct str state_json;  /* reused buffer */
    struct damaged_steps damaged_steps;
};

/* Frees everything except the saver, which must be closed first. */
void run_saving_close(struct run_saving *saving);

/* Describes the boxes that a rank of the partition saves or, for a load, holds. Data addresses of
 * other ranks are invalid. Call run_tensors_deinit even after a failure. */
int run_tensors_describe(const struct run_compute *compute, const struct optimizer *optimizer,
                         uint32_t rank, bool is_load, struct run_tensors *ret_tensors,
                         struct err *err);
void run_tensors_deinit(struct run_tensors *tensors);
/* Returns a row in this rank's part of a parameter. kind: 0, or 1 + the index of a moment. */
void *run_tensors_row(const struct run_compute *compute, const struct optimizer *optimizer,
                      const struct param *param, uint64_t row, unsigned kind);

#endif
