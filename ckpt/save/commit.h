/*
 * commit — makes a step folder appear, complete, when all ranks agree, or not at all.
 * docs/reference/checkpoints.md has the protocol.
 *
 *     // a private staging folder; this rank's files in it
 *     status = commit_begin(commit, step, status, err);
 *     ... write commit->files ...
 *     // finalize, agree, gather, manifest, agree, commit, agree
 *     commit_finish(commit, status, state_json, err);
 *
 * Both are collective: every rank calls both, whatever failed on it, and passes begin's status to
 * finish.
 *
 * Threads: the writer's.
 */
#ifndef MILLRACE_CKPT_SAVE_COMMIT_H
#define MILLRACE_CKPT_SAVE_COMMIT_H

#include "base/err.h"
#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/save/global_plan.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/nodes.h"
#include "comm/comm.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

/* The staging folder, as a node's first rank reports it. */
struct staging_report {
    int64_t status;
    char text[IO_PATH_BYTES_MAX];
    uint8_t exists; /* 0 or 1 */
};

/* How the existing step compares with the one being saved. */
enum commit_comparison {
    COMMIT_DIFFERENT,   /* also if there is none, or a damaged one */
    COMMIT_SAME_ARRAYS, /* and the same state except for `metrics` and `config` */
    COMMIT_SAME,        /* byte for byte: it is kept, and nothing is committed */
};

struct commit {
    struct io *io; /* this group is set by the owner, borrowed and immutable */
    const struct nodes *nodes;
    struct io_lock *lock; /* of the folder; on a node's first rank */
    struct global_plan *global;
    const char *folder, *run_id, *numerics_id;
    const struct log *log;
    struct ckpt_keep keep;
    /* Of this rank's file and of the common one; 0: there is none. */
    uint64_t file_bytes[LAYOUT_FILES];

    struct staging_report *staging_reports; /* [ranks of the node] */
    bool gather_failed;                     /* the communicator may still use places (comm.h) */
    struct str manifest_text;
    char path[IO_PATH_BYTES_MAX], aside[IO_PATH_BYTES_MAX];
    uint64_t step, attempt;
    struct io_transaction *transaction;
    struct io_file *files[LAYOUT_FILES]; /* open until finalized, else NULL */
    bool exists;                         /* the step's folder existed at begin */
    enum commit_comparison comparison;   /* on a node's first rank */
};

int commit_init(struct commit *commit, struct err *err);
void commit_deinit(struct commit *commit);
/* Checks that all ranks of a node see what its first rank creates in the folder, before a run
 * depends on it. Collective. -ENOENT on a rank that does not; else as commit_begin. */
int commit_try_folder(struct commit *commit, struct err *err);
/* status: this rank's so far, its detail in err. If it is an error, nothing is begun, and the other
 * ranks fail. */
int commit_begin(struct commit *commit, uint64_t step, int status, struct err *err);
/* status: this rank's so far, its detail in err. The same verdict on all ranks; -EREMOTEIO if only
 * others failed. Also applies retention. */
int commit_finish(struct commit *commit, int status, const char *state_json, struct err *err);

#endif
