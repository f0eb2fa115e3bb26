/*
 * prune — applies retention: reads the steps of a folder, judges them (retention.h), and removes
 * those that are not kept.
 *
 * A removal locks the step's manifest exclusively (io.h); readers lock it shared. It renames the
 * step first, so that no reader finds a partial step. If the process dies, the next owner removes
 * the renamed folder.
 */
#ifndef MILLRACE_CKPT_TOOLS_PRUNE_H
#define MILLRACE_CKPT_TOOLS_PRUNE_H

#include "ckpt/ckpt.h"

/* Like ckpt_prune, for a caller that holds the folder's lock (NULL for a dry run). Checks the lock
 * before each removal. saved_step: always kept; UINT64_MAX: none. */
int prune_folder(struct io *io, const char *folder, const struct ckpt_prune_options *options,
                 struct io_lock *lock, uint64_t saved_step, struct err *err);

/* Removes a step or a backup if the folder's lock is still held and the step has no reader. Sets
 * *ret_has_reader if the step has one. */
int prune_remove_unread(struct io *io, struct io_lock *lock, const char *path, bool *ret_has_reader,
                        struct err *err);

#endif
