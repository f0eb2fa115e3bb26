/*
 * commit — publishes a complete step folder when all ranks agree, or nothing.
 * docs/reference/checkpoints.md has the protocol.
 *
 *     // a private staging folder; this rank's files in it
 *     status = commit_begin(commit, step, status, err);
 *     ... write commit->files ...
 *     // finalize, agree, gather, manifest, agree, commit, agree
 *     commit_finish(commit, status, state_json, err);
 *
 * Both are collective: every rank calls both, also after a failure, and passes begin's status to
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
/* Checks early that all ranks of a node see the same folder. Collective. -ENOENT on a rank that
 * does not; otherwise fails as commit_begin does. */
int commit_try_folder(struct commit *commit, struct err *err);
/* status: this rank's so far, its detail in err. On an error nothing begins and the other ranks
 * fail. */
int commit_begin(struct commit *commit, uint64_t step, int status, struct err *err);
/* status: this rank's so far, its detail in err. The same verdict on all ranks; -EREMOTEIO if only
 * others failed. Also applies retention. */
int commit_finish(struct commit *commit, int status, const char *state_json, struct err *err);

/* existing.c: sets comparison. A node's first rank compares the manifests; if they seem the same,
 * all ranks of the node compare the bytes. Collective on the node. */
int commit_compare_existing(struct commit *commit, const char *state_json, struct err *err);
/* existing.c: removes the replaced step if the new one has the same arrays and no reader uses it;
 * else logs where it is. Only after all nodes have the new step: until then the replaced one may be
 * the save that all nodes have. If this node had the new step already, from a save that failed on
 * other nodes, judges what that save replaced. */
void commit_prune_backup(const struct commit *commit, const char *state_json);

#endif
