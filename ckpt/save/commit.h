/*
 * commit — publishes a complete step folder if all ranks agree, else nothing.
 * docs/reference/checkpoints.md describes the protocol.
 *
 *     status = commit_begin(commit, step, status, err); // creates the staging folder and files
 *     ... write commit->files ...
 *     commit_finish(commit, status, state_json, err);
 *
 * Both are collective: every rank calls both, even after a failure, and passes begin's status to
 * finish. Threads: the writer only.
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

/* Sent by a node's first rank. */
struct staging_report {
    int64_t status;
    char path[IO_PATH_BYTES_MAX];
    uint8_t exists;
};

/* How the existing step compares with the one being saved. */
enum commit_comparison {
    COMMIT_DIFFERENT,   /* also if no step exists or it is damaged */
    COMMIT_SAME_ARRAYS, /* and the same state except for `metrics` and `config` */
    COMMIT_SAME,        /* identical: it is kept, and nothing is committed */
};

struct commit {
    struct io *io; /* members up to file_bytes are set by the owner, borrowed and immutable */
    const struct nodes *nodes;
    struct io_lock *lock; /* the folder's; only on a node's first rank */
    struct global_plan *global;
    const char *folder, *run_id, *numerics_id;
    const struct log *log;
    struct ckpt_keep_rules keep;
    /* 0: there is no such file. */
    uint64_t file_bytes[LAYOUT_FILES];

    struct staging_report *staging_reports; /* [ranks of the node] */
    bool gather_failed; /* the communicator may still use staging_reports (comm.h) */
    struct str manifest_text;
    char path[IO_PATH_BYTES_MAX], backup_path[IO_PATH_BYTES_MAX];
    uint64_t step, attempt;
    struct io_transaction *transaction;
    struct io_file *files[LAYOUT_FILES]; /* open until finalized, else NULL */
    bool exists;                         /* the step's folder existed at begin */
    enum commit_comparison comparison;   /* on a node's first rank */
};

int commit_init(struct commit *commit, struct err *err);
void commit_deinit(struct commit *commit);
/* Checks early that all ranks of a node see the same folder. Collective. -ENOENT on a rank that
 * sees a different one; else fails like commit_begin. */
int commit_check_folder_is_shared(struct commit *commit, struct err *err);
/* status: this rank's status so far, with its detail in err. If any rank fails, all fail and
 * nothing begins. */
int commit_begin(struct commit *commit, uint64_t step, int status, struct err *err);
/* status: as in commit_begin. Returns the same verdict on all ranks; -EREMOTEIO if only others
 * failed. Also applies retention. */
int commit_finish(struct commit *commit, int status, const char *state_json, struct err *err);

/* In existing.c. Sets comparison. A node's first rank compares the manifests; if they match, all
 * ranks of the node compare the bytes. Collective on the node. */
int commit_compare_existing(struct commit *commit, const char *state_json, struct err *err);
/* In existing.c. Removes the replaced step if the new one has the same arrays and no reader uses
 * the old one; else logs its path. Call only when all nodes have the new step: until then, the
 * replaced step may be the only one that all have. If an earlier failed save already committed the
 * new step here, handles the backup of that save. */
void commit_prune_backup(const struct commit *commit, const char *state_json);

#endif
