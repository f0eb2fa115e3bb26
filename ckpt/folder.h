/*
 * folder — a folder of steps: names, what is whole, what is kept.
 *
 * `step-00001000`: eight digits at least, no more zeros in front than that. A step is whole if its manifest parses and every
 * file that it names is there with its size; only whole ones are listed, found and counted.
 */
#ifndef MILLRACE_CKPT_FOLDER_H
#define MILLRACE_CKPT_FOLDER_H

#include "base/err.h"
#include "base/log.h"
#include "ckpt/manifest.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

enum { FOLDER_STEP_NAME_BYTES = 32 };

const char *folder_step_name(uint64_t step, char name[FOLDER_STEP_NAME_BYTES]);
bool folder_parse_step(const char *name, uint64_t *ret_step);
/* folder/step-N into path (IO_PATH_BYTES_MAX). */
int folder_step_path(const char *folder, uint64_t step, char *path, struct err *err);

/* The manifest of a step that is whole. size_bytes: of all its files, may be NULL. Gives the manifest. */
int folder_read_step(struct io *io, const char *step_path, struct manifest *ret_manifest,
                     uint64_t *ret_size_bytes, struct err *err);
/* The manifest alone, and its own size. */
int folder_read_manifest(struct io *io, const char *step_path, struct manifest *ret_manifest,
                         uint64_t *ret_bytes, struct err *err);
/* That the file is there and has its size. */
int folder_check_file(struct io *io, const char *step_path, const struct manifest_file *file,
                      struct err *err);
/* The steps that have a folder, whole or not, rising; into memory that the caller frees with free(). -ENOENT where there is no
 * folder. */
int folder_steps(struct io *io, const char *folder, uint64_t **ret_steps, size_t *ret_count, struct err *err);
/* Keeps `last` whole steps, `saved` and the newest others, and removes older whole ones, the oldest first. What fails is logged and
 * tried again the next time. last 0: keeps all. */
void folder_retain(struct io *io, const char *folder, uint32_t last, uint64_t saved, const struct log *log);

#endif
