/*
 * prune — retention carried out: the steps of a folder are read, judged (retention.h), and those
 * that go are removed.
 *
 * A removal renames first, so that nobody finds half a step: who dies in it leaves a temporary,
 * which the next owner sweeps. The step's manifest is held exclusively meanwhile (io.h): a reader,
 * who holds it shared, and a removal never meet.
 */
#ifndef MILLRACE_CKPT_TOOLS_PRUNE_H
#define MILLRACE_CKPT_TOOLS_PRUNE_H

#include "ckpt/ckpt.h"

/* ckpt_prune, for who owns the folder by that lock (NULL for a dry run), which is looked at before
 * each removal. saved_step: stays, whatever the rules say; UINT64_MAX: none. */
int prune_folder(struct io *io, const char *folder, const struct ckpt_prune_options *options,
                 struct io_lock *lock, uint64_t saved_step, struct err *err);

/* A step, or what was put aside for one, goes while the folder is owned by that lock, and if nobody
 * reads it: *ret_is_read. */
int prune_remove_unread(struct io *io, struct io_lock *lock, const char *path, bool *ret_is_read,
                        struct err *err);

#endif
