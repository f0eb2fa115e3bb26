/*
 * dataset_target — examines a conversion's target folder, and removes only our files.
 *
 * Our files are dataset.json, the journal and shard-NNNNNN.tar, in the target and in split folders
 * that the options or the target's journal name. Other folders in the target are not ours, even if
 * they hold datasets. The lock (io.h) gives one conversion at a time ownership of the target; the
 * lock's files are ignored.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_TARGET_H
#define MILLRACE_CONVERT_DATASET_DATASET_TARGET_H

#include "convert/options.h"

enum target_state {
    TARGET_EMPTY,       /* missing, empty, or only temporary files */
    TARGET_INTERRUPTED, /* has a journal */
    TARGET_COMPLETE,    /* the target or a split folder has dataset.json */
    TARGET_UNRELATED,
};

int target_examine(struct io *io, const struct convert_options *options,
                   enum target_state *ret_state, struct err *err);
/* *ret_is_complete: every folder of the options has a dataset.json. */
int target_is_complete(struct io *io, const struct convert_options *options, bool *ret_is_complete,
                       struct err *err);
/* -EEXIST names a file that is not ours in a folder that would be replaced. */
int target_check_replaceable(struct io *io, const struct convert_options *options, struct err *err);

/* Removes our files from the split folders that the journal names, then from the target, with the
 * journal last. Removes these folders if empty. The target may be missing. */
int target_clear(struct io *io, const char *target, struct err *err);
/* Like target_clear, but keeps split folders. */
int target_clear_folder(struct io *io, const char *target, struct err *err);
/* The owner's last step before unlocking. Ignores failures, because the files are harmless. */
void target_remove_owner_records(struct io *io, const char *target);
/* Removes temporary files that killed conversions left next to a target, and what killed removals
 * left there, whatever of. */
int target_sweep_siblings(struct io *io, const char *target, struct err *err);

#endif
