/*
 * synthetic_photos — writes a shard of synthetic images that decode as slowly as photos, for
 * benchmarks without a dataset.
 *
 * Each image is smooth noise of several scales, encoded as with --jpeg reencode. It depends only on
 * its number.
 */
#ifndef MILLRACE_CONVERT_DATASET_SYNTHETIC_PHOTOS_H
#define MILLRACE_CONVERT_DATASET_SYNTHETIC_PHOTOS_H

#include "base/err.h"
#include "io/io.h"

#include <stdatomic.h>

enum { SYNTHETIC_WIDTH = 512, SYNTHETIC_HEIGHT = 384 };

/* Commits a shard of count samples, `jpg` and `cls`. Stops with -EINTR if *stop is nonzero; stop
 * may be NULL. -EEXIST, -ENOMEM, write errors. */
int synthetic_photos_write(struct io *io, const char *path, uint64_t count, const atomic_int *stop,
                           struct err *err);

#endif
