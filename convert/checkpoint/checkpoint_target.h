/*
 * checkpoint_target — checks a conversion's target: never anything that the conversion reads, and
 * with --force only what an earlier conversion may have written.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_TARGET_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_TARGET_H

#include "io/io.h"

#include <stdbool.h>

/* A target file. -EINVAL if it lies inside the checkpoint at source, -EISDIR if it is a folder. */
int checkpoint_target_check_file(struct io *io, const char *source, const char *target,
                                 struct err *err);

/* A target folder for Hugging Face's files. -EINVAL if it lies inside the checkpoint at source,
 * -EEXIST if it is to be replaced and holds anything that such a conversion does not write, since
 * that would be deleted. */
int checkpoint_target_check_folder(struct io *io, const char *source, const char *target,
                                   bool replace, struct err *err);

#endif
