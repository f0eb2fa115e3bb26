/*
 * folder — a folder of steps: names, and what is whole.
 *
 * `step-00001000`: eight digits at least, no more zeros in front than that. A step is whole if its
 * manifest parses and every file that it names is there with its size, but those that were written
 * into other nodes' folders, which may be absent; only whole ones are listed, found and counted. A
 * folder named for one step whose manifest names another is not whole, so nothing counts or removes
 * it.
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
/* folder/step-N into path (IO_PATH_BYTES_MAX). */
int folder_step_path(const char *folder, uint64_t step, char *path, struct err *err);
/* `aside-step-00001000`: where a step goes that another one of its number replaces. No step: never
 * listed, found or counted. */
int folder_aside_path(const char *folder, uint64_t step, char *path, struct err *err);
bool folder_parse_aside(const char *name, uint64_t *ret_step);

/* What the owner of a folder of steps removes when it begins: temporaries of steps, and what a
 * removal left. Other temporaries are not ours. */
bool folder_is_leftover(const char *entry_name);

/* The manifest of a step that is whole, be it one that took the place of another meanwhile.
 * size_bytes: of all its files that are there, may be NULL. Gives the manifest. -ESTALE where one
 * after the other took its place. */
int folder_read_step(struct io *io, const char *step_path, struct manifest *ret_manifest,
                     uint64_t *ret_size_bytes, struct err *err);
/* The manifest alone, and its own size. -EBADMSG where the folder's name is that of another
 * step. */
int folder_read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err);
/* -EBADMSG where the manifest names another step than the folder; a manifest that cannot be read is
 * fine. */
int folder_refuse_misnamed(struct io *io, const char *step_path, struct err *err);
/* For who reads the step of that manifest, whose files are opened by their names one after the
 * other, and failed with status (err has its detail): where meanwhile it was saved again, and so
 * other files have these names, or was removed, that is no damage but -ESTALE, with its own detail.
 * Otherwise status. */
int folder_judge_failure(struct io *io, const char *step_path, const struct manifest *manifest,
                         int status, struct err *err);
/* Whether the file is in the step's folder, whole or not: one that was written elsewhere may have
 * been gathered since. */
bool folder_has_file(struct io *io, const char *step_path, const struct manifest_file *file);
/* That the file is there and has its size. */
int folder_check_file(struct io *io, const char *step_path, const struct manifest_file *file,
                      struct err *err);
/* The steps that have a folder, whole or not, rising; into memory that the caller frees with
 * free(). -ENOENT where there is no folder. */
int folder_steps(struct io *io, const char *folder, uint64_t **ret_steps, size_t *ret_count,
                 struct err *err);

/* -EINVAL where it is itself a step; absent is fine. */
int folder_refuse_step(struct io *io, const char *folder, struct err *err);
/* That somebody who only removes may own it, which leaves a trace: it has a step, or has or had an
 * owner. -ENOENT, and as folder_refuse_step. */
int folder_check_of_steps(struct io *io, const char *folder, struct err *err);

#endif
