/*
 * path_kind — identifies what is at a path, by content rather than by name.
 */
#ifndef MILLRACE_CLI_CORE_PATH_KIND_H
#define MILLRACE_CLI_CORE_PATH_KIND_H

#include "base/err.h"
#include "io/io.h"

enum path_kind {
    PATH_DATASET,     /* dataset.json or its folder, a pattern of shards */
    PATH_DATASETS,    /* a folder of such folders, as --split makes */
    PATH_SHARD,       /* a file with millrace's trailer, or a plain tar */
    PATH_CHECKPOINT,  /* a step's folder, or its manifest.json */
    PATH_CHECKPOINTS, /* a folder of steps */
    PATH_SAFETENSORS,
    PATH_RUN, /* a run's metrics.jsonl, or the folder that holds it */
    PATH_NPY,
    PATH_JPEG,
    PATH_PNG,
    PATH_WEBP,
    PATH_PPM,
    PATH_KIND_COUNT
};

const char *path_kind_name(enum path_kind kind); /* for people */

/* Reads a few bytes. ret_path (IO_PATH_BYTES_MAX bytes) is the path to open: the parent of a
 * manifest.json, the metrics.jsonl in a run folder, otherwise path. -ENOENT; -ENOTSUP with detail
 * if the kind is not recognized. */
int path_kind_of(struct io *io, const char *path, enum path_kind *ret_kind, char *ret_path,
                 struct err *err);

/* Calls each for every dataset of a PATH_DATASETS folder, in byte order, until one returns nonzero,
 * which is returned. */
int path_each_dataset(struct io *io, const char *folder,
                      int (*each)(void *context, const char *path), void *context, struct err *err);

#endif
