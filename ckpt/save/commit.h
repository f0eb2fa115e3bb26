/*
 * commit — a step folder that appears whole on all ranks' word, or not at all.
 * docs/reference/checkpoints.md has the protocol.
 *
 *     // a private place; this rank's files in it
 *     status = commit_begin(commit, step, status, err);
 *     ... write commit->files ...
 *     // finalize, agree, gather, manifest, agree, commit, agree
 *     commit_finish(commit, status, state_json, err);
 *
 * Both are collective: every rank calls both, whatever failed on it; begin's status goes to finish.
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

/* What a node's first rank tells about the place. */
struct commit_place {
    int64_t status;
    char text[IO_PATH_BYTES_MAX];
    uint8_t exists; /* 0 or 1 */
};

/* Of the step that is there to the one that is saved. */
enum commit_likeness {
    COMMIT_OTHER,       /* also where there is none, or a damaged one */
    COMMIT_SAME_ARRAYS, /* and a state that says the same but for `metrics` and `config` */
    COMMIT_SAME,        /* byte for byte: it stays, and nothing is committed */
};

struct commit {
    struct io *io; /* these are set by the owner, borrowed, and immutable */
    const struct nodes *nodes;
    struct io_lock *lock; /* of the first rank of a node: the folder is its own */
    struct global_plan *global;
    const char *folder, *run_id, *numerics_id;
    const struct log *log;
    struct ckpt_keep keep;
    uint64_t file_bytes
        [LAYOUT_FILES]; /* of this rank's file, and of the one that all write; 0: there is none */

    struct commit_place *places; /* [ranks of the node] */
    bool gather_failed;          /* places is borrowed for ever: comm.h */
    struct str manifest_text;
    char path[IO_PATH_BYTES_MAX], aside[IO_PATH_BYTES_MAX];
    uint64_t step, attempt;
    struct io_transaction *transaction;
    struct io_file *files[LAYOUT_FILES]; /* open until they are finalized; NULL */
    bool exists;                         /* a folder of that step was there at begin */
    enum commit_likeness likeness;       /* on the first rank of a node */
};

int commit_init(struct commit *commit, struct err *err);
void commit_deinit(struct commit *commit);
/* That all ranks of a node see what its first makes in the folder, before a run depends on it.
 * Collective. -ENOENT on who does not, and what commit_begin gives. */
int commit_try_folder(struct commit *commit, struct err *err);
/* status: of this rank so far, whose detail is in err. Where it is none, nothing is begun, and the
 * others fail. */
int commit_begin(struct commit *commit, uint64_t step, int status, struct err *err);
/* status: of this rank so far, whose detail is in err. The same verdict on all ranks; -EREMOTEIO
 * where only others failed. Also removes what retention no longer keeps. */
int commit_finish(struct commit *commit, int status, const char *state_json, struct err *err);

#endif
