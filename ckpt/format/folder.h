/*
 * folder — names and completeness of the steps in a folder.
 *
 * A name is `step-00001000`: at least eight digits, zero-padded only up to eight. A step is
 * complete if its manifest parses and has the step in the folder's name, and every file has its
 * listed size; only files in other nodes' folders may be absent. Only complete steps are listed,
 * found and counted. A step in a folder named after another step is neither counted nor removed.
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
/* `aside-step-00001000`: a step that another save with the same number replaced. Never listed,
 * found or counted. */
int folder_backup_path(const char *folder, uint64_t step, char *path, struct err *err);
bool folder_parse_backup(const char *name, uint64_t *ret_step);

/* Whether the entry is a temporary file that a save, copy or removal left for the next owner to
 * remove. */
bool folder_is_leftover(const char *entry_name);

/* Reads the manifest of a complete step; retries if the step is replaced during the read. -ESTALE
 * after several replacements. ret_size_bytes: total size of the present files; may be NULL. */
int folder_read_step(struct io *io, const char *step_path, struct manifest *ret_manifest,
                     uint64_t *ret_size_bytes, struct err *err);
/* Reads only the manifest; *ret_bytes is its size. -EBADMSG if the folder is named after a
 * different step. */
int folder_read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err);
/* -EBADMSG if the manifest belongs to a different step than the folder's name. An unreadable
 * manifest passes. */
int folder_check_name(struct io *io, const char *step_path, struct err *err);
/* Replaces the status and detail of a failed read with -ESTALE if the step was saved again or
 * removed in the meantime: files are opened by name, one after another. */
int folder_classify_failure(struct io *io, const char *step_path, const struct manifest *manifest,
                            int status, struct err *err);
/* Whether status means damage, so that an older step may be used instead. */
bool folder_is_damage(int status);
/* False only for an absent file that was written to another node's folder. */
bool folder_expects_file(struct io *io, const char *step_path, const struct manifest_file *file);
int folder_check_file(struct io *io, const char *step_path, const struct manifest_file *file,
                      struct err *err);
/* Lists steps in ascending order, complete or not. Free *ret_steps with free(). -ENOENT: no such
 * folder. */
int folder_list_steps(struct io *io, const char *folder, uint64_t **ret_steps, size_t *ret_count,
                      struct err *err);

/* In find.c. -EINVAL if the folder is itself a step. Accepts an absent folder. */
int folder_check_not_step(struct io *io, const char *folder, struct err *err);
/* In find.c. -ENOENT if the folder has neither a step nor an owner record; else like
 * folder_check_not_step. Call it before locking a folder to remove steps, since locking leaves a
 * record. */
int folder_check_has_steps(struct io *io, const char *folder, struct err *err);

#endif
