/*
 * dataset_target — the folder that a conversion writes into: what is there, and removing what is
 * ours.
 *
 * Ours are dataset.json, the journal and shard-NNNNNN.tar of the target itself and of its splits'
 * folders, as the options or the target's journal name them. Other folders below the target are
 * somebody else's, also where they hold datasets. One conversion at a time owns the target, by its
 * lock (io.h), whose records there count as nothing.
 */
#ifndef MILLRACE_CONVERT_DATASET_TARGET_H
#define MILLRACE_CONVERT_DATASET_TARGET_H

#include "convert/options.h"

enum target_state {
    TARGET_FREE,    /* nothing there, or an empty folder, or only temporaries */
    TARGET_BEGUN,   /* a journal: a conversion was interrupted */
    TARGET_WHOLE,   /* dataset.json, in the folder itself or in that of a split of the options */
    TARGET_FOREIGN, /* something else */
};

int target_examine(struct io *io, const struct convert_options *options,
                   enum target_state *ret_state, struct err *err);
/* Whether dataset.json stands in every folder that the options name. */
int target_is_complete(struct io *io, const struct convert_options *options, bool *ret_complete,
                       struct err *err);
/* -EEXIST naming what is not ours in a folder that is to be replaced as a whole. */
int target_check_replaceable(struct io *io, const struct convert_options *options, struct err *err);

/* Removes what is ours of the splits that the target's journal names, then of the target itself,
 * the journal last; then those folders, where they are empty. Nothing else is touched. A missing
 * target is fine. */
int target_clear(struct io *io, const char *target, struct err *err);
/* The same of the target itself alone. */
int target_clear_itself(struct io *io, const char *target, struct err *err);
/* Whose target it is removes what says so, as the last thing before it lets go of the lock. What
 * can't be removed stays, and harms nobody. */
void target_remove_owner_records(struct io *io, const char *target);
/* Removes what killed conversions left beside a target that they were to replace. */
int target_sweep_beside(struct io *io, const char *target, struct err *err);

#endif
