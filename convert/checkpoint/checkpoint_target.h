/*
 * checkpoint_target — protects a conversion's input, and all files that conversions do not write,
 * from replacement.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_TARGET_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_TARGET_H

#include "io/io.h"

#include <stdbool.h>

/* io: the target's. -EINVAL: target lies inside the checkpoint at source; -EISDIR: it is a
 * folder. */
int checkpoint_target_check_file(struct io *io, struct io *source_io, const char *source,
                                 const char *target, struct err *err);

/* io: the target's. -EINVAL: target lies inside the checkpoint at source; -EEXIST: replacing target
 * would delete files that conversions do not write. */
int checkpoint_target_check_folder(struct io *io, struct io *source_io, const char *source,
                                   const char *target, bool replace, struct err *err);

/* Returns -EEXIST for a target that is not the output of the same conversion. */
int checkpoint_target_reject_existing(const char *target, struct err *err);

#endif
