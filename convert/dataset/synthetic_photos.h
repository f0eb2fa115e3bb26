/*
 * synthetic_photos — writes a shard of synthetic pictures, as hard to decode as photos, for
 * benchmarks without a dataset.
 *
 * Each picture is smooth noise of several sizes, SYNTHETIC_WIDTH x SYNTHETIC_HEIGHT, stored as
 * `convert dataset --jpeg reencode` would: a function of its number alone.
 */
#ifndef MILLRACE_CONVERT_DATASET_SYNTHETIC_PHOTOS_H
#define MILLRACE_CONVERT_DATASET_SYNTHETIC_PHOTOS_H

#include "base/err.h"
#include "io/io.h"

#include <stdatomic.h>

enum { SYNTHETIC_WIDTH = 512, SYNTHETIC_HEIGHT = 384 };

/* Writes a shard of count samples, `jpg` and `cls`, that appears once complete. stop: nonzero ends
 * it with -EINTR; NULL: never. -EEXIST, -ENOMEM, write errors. */
int synthetic_photos_write(struct io *io, const char *path, uint64_t count, const atomic_int *stop,
                           struct err *err);

#endif
