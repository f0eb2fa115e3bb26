/*
 * checkpoint — a checkpoint of ours into one full safetensors file.
 *
 * Box copies in constant memory, verified against the manifest's block CRCs while they are read.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_H
#define MILLRACE_CONVERT_CHECKPOINT_H

#include "base/err.h"
#include "base/log.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct convert_checkpoint_options {
    const char *source; /* a step or a folder of steps */
    const char *target; /* the file */
    const char *only;   /* "model" (NULL), "all", or a glob over tensor names */
    bool force;         /* an existing target gives way */
    bool verify;        /* read the result back and compare the hashes, before it has its name */
    const struct log *log;
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
};

struct convert_checkpoint_result {
    uint64_t tensors_count, written_bytes;
    double seconds;
};

/* Blocks. The target appears whole and durable or not at all. -EEXIST, -EBADMSG, -ENOENT with detail. */
int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err);

#endif
