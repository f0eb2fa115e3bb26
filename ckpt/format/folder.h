/*
 * folder — a folder of steps: names, and which steps are complete.
 *
 * A name is `step-00001000`: at least eight digits, zero-padded only up to eight. A step is
 * complete if its manifest parses and every file that it names is present with its size; only files
 * written into other nodes' folders may be absent. Only complete steps are listed, found and
 * counted. A step whose folder's name differs from the step in its manifest is not complete, so
 * nothing counts or removes it.
 */
#ifndef MILLRACE_CKPT_FORMAT_FOLDER_H
#define MILLRACE_CKPT_FORMAT_FOLDER_H

#include "base/err.h"
#include "ckpt/format/manifest.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

enum { FOLDER_STEP_NAME_BYTES = 32 };

const char *folder_step_name(uint64_t step, char name[FOLDER_STEP_NAME_BYTES]);
bool folder_parse_step(const char *name, uint64_t *ret_step);
/* Writes folder/step-N to path (IO_PATH_BYTES_MAX). */
int folder_step_path(const char *folder, uint64_t step, char *path, struct err *err);
/* `aside-step-00001000`: holds a step that another save of the same number replaced. Not a step:
 * never listed, found or counted. */
int folder_backup_path(const char *folder, uint64_t step, char *path, struct err *err);
bool folder_parse_backup(const char *name, uint64_t *ret_step);

/* Whether the owner of a folder of steps removes this entry when it starts: temporaries of steps
 * and of removals. Other temporaries belong to others. */
bool folder_is_leftover(const char *entry_name);

/* Reads the manifest of a complete step; if the step is replaced meanwhile, of the new one. -ESTALE
 * if it is replaced again and again. *ret_size_bytes: all its files that are present; may be
 * NULL. */
int folder_read_step(struct io *io, const char *step_path, struct manifest *ret_manifest,
                     uint64_t *ret_size_bytes, struct err *err);
/* Reads the manifest alone; *ret_bytes is its size. -EBADMSG if the folder is named for another
 * step. */
int folder_read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err);
/* -EBADMSG if the manifest names another step than the folder. A manifest that cannot be read is
 * fine. */
int folder_check_name(struct io *io, const char *step_path, struct err *err);
/* Call it after a read of that step failed with status and its detail in err. Files are opened by
 * name, one after another. If the step was saved again meanwhile, so that other files have these
 * names, or was removed, this is not damage: returns -ESTALE with its own detail. Otherwise returns
 * status. */
int folder_classify_failure(struct io *io, const char *step_path, const struct manifest *manifest,
                            int status, struct err *err);
/* Whether the step's folder has the file, intact or not. False only for an absent file that was
 * written elsewhere; it may have been gathered since. */
bool folder_has_file(struct io *io, const char *step_path, const struct manifest_file *file);
/* Checks that the file is present and has its size. */
int folder_check_file(struct io *io, const char *step_path, const struct manifest_file *file,
                      struct err *err);
/* The steps that have a folder, complete or not, ascending. The caller frees *ret_steps with
 * free(). -ENOENT: no such folder. */
int folder_steps(struct io *io, const char *folder, uint64_t **ret_steps, size_t *ret_count,
                 struct err *err);

/* -EINVAL if it is itself a step; absent is fine. */
int folder_check_not_step(struct io *io, const char *folder, struct err *err);
/* Whether a caller that only removes may lock the folder, which leaves a trace: it must have a
 * step, or have or have had an owner. Else -ENOENT; also as folder_check_not_step. */
int folder_check_has_steps(struct io *io, const char *folder, struct err *err);

#endif
