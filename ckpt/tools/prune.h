/*
 * prune — applies retention: reads the steps of a folder, judges them (retention.h), and removes
 * those that are not kept.
 *
 * A removal renames first, so that nobody finds a partial step; a process that dies in it leaves a
 * temporary, which the next owner removes. Meanwhile the step's manifest is locked exclusively
 * (io.h). Readers lock it shared, so a removal never meets a reader.
 */
#ifndef MILLRACE_CKPT_TOOLS_PRUNE_H
#define MILLRACE_CKPT_TOOLS_PRUNE_H

#include "ckpt/ckpt.h"

/* As ckpt_prune, for a caller that owns the folder by that lock (NULL for a dry run). The lock is
 * checked before each removal. saved_step: kept, whatever the rules; UINT64_MAX: none. */
int prune_folder(struct io *io, const char *folder, const struct ckpt_prune_options *options,
                 struct io_lock *lock, uint64_t saved_step, struct err *err);

/* Removes a step, or one that was put aside, if the lock still owns the folder and the step has no
 * reader: *ret_is_read. */
int prune_remove_unread(struct io *io, struct io_lock *lock, const char *path, bool *ret_is_read,
                        struct err *err);

#endif
