/*
 * dataset_target — the folder that a conversion writes into: what is there, and removing what is ours.
 */
#ifndef MILLRACE_CONVERT_DATASET_TARGET_H
#define MILLRACE_CONVERT_DATASET_TARGET_H

#include "convert/dataset.h"

enum target_state {
    TARGET_FREE,    /* nothing there, or an empty folder, or only temporaries */
    TARGET_BEGUN,   /* a journal: a conversion was interrupted */
    TARGET_WHOLE,   /* dataset.json, in the folder itself or in one below it */
    TARGET_FOREIGN, /* something else */
};

int target_examine(struct io *io, const char *target, enum target_state *ret_state, struct err *err);

/* Removes dataset.json first, then journal and shards, of the target and of folders below it that hold such; then those folders, where
 * they are empty. Nothing else is touched. A missing target is fine. */
int target_clear(struct io *io, const char *target, struct err *err);

#endif
