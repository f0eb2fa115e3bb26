/*
 * path_kind — identifies a path by its content.
 */
#ifndef MILLRACE_CLI_CORE_PATH_KIND_H
#define MILLRACE_CLI_CORE_PATH_KIND_H

#include "base/err.h"
#include "io/io.h"

enum path_kind {
    PATH_DATASET,     /* dataset.json, its folder, or a pattern of shards */
    PATH_DATASETS,    /* a folder of datasets, as --split creates */
    PATH_SHARD,       /* a file with millrace's trailer, or a plain tar */
    PATH_CHECKPOINT,  /* a step's folder, or its manifest.json */
    PATH_CHECKPOINTS, /* a folder of steps */
    PATH_SAFETENSORS,
    PATH_RUN, /* a run's metrics.jsonl, or its folder */
    PATH_NPY,
    PATH_JPEG,
    PATH_PNG,
    PATH_WEBP,
    PATH_PPM,
    PATH_KIND_COUNT
};

const char *path_kind_name(enum path_kind kind);

/* Reads a few bytes. ret_path (IO_PATH_BYTES_MAX bytes): the path to open: the parent of a
 * manifest.json, the metrics.jsonl of a run folder, otherwise path. -ENOENT; -ENOTSUP with
 * detail: not recognized. */
int path_kind_detect(struct io *io, const char *path, enum path_kind *ret_kind, char *ret_path,
                     struct err *err);

/* Calls `each` for every dataset of a PATH_DATASETS folder, in byte order, until it returns
 * nonzero. Returns that value. */
int path_each_dataset(struct io *io, const char *folder,
                      int (*each)(void *context, const char *path), void *context, struct err *err);

#endif
