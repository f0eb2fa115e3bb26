/*
 * dataset_target — a conversion's target folder: detects what is there and removes only our files.
 *
 * Our files are dataset.json, the journal and shard-NNNNNN.tar in the target and in the folders of
 * its splits, as named by the options or by the target's journal. Other folders below the target
 * belong to others, even if they hold datasets. One conversion at a time owns the target, by its
 * lock (io.h); the lock's files there are ignored.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_TARGET_H
#define MILLRACE_CONVERT_DATASET_DATASET_TARGET_H

#include "convert/options.h"

enum target_state {
    TARGET_EMPTY,       /* missing, empty, or only temporaries */
    TARGET_INTERRUPTED, /* has a journal: a conversion was interrupted */
    TARGET_COMPLETE,    /* has dataset.json, itself or in a split folder of the options */
    TARGET_UNRELATED,   /* anything else */
};

int target_examine(struct io *io, const struct convert_options *options,
                   enum target_state *ret_state, struct err *err);
/* Whether every folder that the options name has a dataset.json. */
int target_is_complete(struct io *io, const struct convert_options *options, bool *ret_complete,
                       struct err *err);
/* -EEXIST names what is not ours in a folder to be replaced as a whole. */
int target_check_replaceable(struct io *io, const struct convert_options *options, struct err *err);

/* Removes our files of the splits that the target's journal names, then of the target itself, the
 * journal last; then those folders if empty. Touches nothing else. A missing target is fine. */
int target_clear(struct io *io, const char *target, struct err *err);
/* The same for the target itself only. */
int target_clear_itself(struct io *io, const char *target, struct err *err);
/* The owner of the target removes the lock's files as its last step before unlocking. Files that
 * can't be removed stay and do no harm. */
void target_remove_owner_records(struct io *io, const char *target);
/* Removes what killed conversions left beside a target that they were replacing. */
int target_sweep_siblings(struct io *io, const char *target, struct err *err);

#endif
