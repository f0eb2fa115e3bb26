/*
 * checkpoint_options — options of `convert checkpoint` (checkpoint.h). Only convert_checkpoint_full
 * and convert_checkpoint_hf, respectively, use options marked _full and _hf.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_OPTIONS_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_OPTIONS_H

#include "base/log.h"
#include "ckpt/load/tensor_stream.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct convert_checkpoint_options {
    const char *source;   /* a step or a folder of steps; _hf: of a gpt2, llama or qwen model */
    const char *target;   /* _full: a file; _hf: a folder */
    struct io *source_io; /* reads the source; NULL: the backend of the target */
    /* _full: "model" (NULL), "optimizer", "all", or a glob over tensor names */
    const char *selection;
    /* _hf: tensor bytes per file; larger models get several files and an index. 0: one file. */
    uint64_t max_file_bytes;
    struct tensor_cast cast; /* for floating-point tensors only */
    bool force;
    /* Resume a stopped or killed conversion; accept an identical target. */
    bool resume;
    /* Before committing, read the result back and compare hashes (_full) or all bytes (_hf). */
    bool verify;
    unsigned workers_count; /* at most PIECES_WORKERS_MAX; 0: one per CPU, at most 4 */
    const struct log *log;
    const atomic_int *stop; /* nonzero: stop with -EINTR; may be NULL */
    /* bytes: includes verification. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
};

#endif
