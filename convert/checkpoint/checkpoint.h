/*
 * checkpoint — exports a millrace checkpoint to one consolidated safetensors file or to a Hugging
 * Face folder.
 *
 * Several threads copy, in bounded memory; reads are verified against the manifest's block CRCs.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_H

#include "base/err.h"
#include "base/log.h"
#include "ckpt/load/tensor_stream.h"
#include "io/io.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct convert_checkpoint_options {
    const char *source; /* a step or a folder of steps; _hf: with a gpt2, llama or qwen model */
    const char *target; /* _full: a file; _hf: a folder */
    const char *only;   /* _full: "model" (NULL), "optimizer", "all", or a glob over tensor names */
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

struct convert_checkpoint_result {
    uint64_t tensors_count, written_bytes;
    uint64_t cast_count; /* tensors whose dtype changed */
    uint64_t kept_bytes; /* reused from an interrupted conversion */
    double seconds;
    bool is_resumable; /* after -EINTR: resume can continue */
};

/* Blocks. Publishes the target atomically and durably. Written data is removed on failure, but kept
 * for a resume if the conversion is stopped or the process dies. With detail: -EEXIST, -EBADMSG,
 * -ENOENT, -EBUSY (the conversion to resume is still running), -EINTR. After -EINTR, only
 * ret_result->is_resumable is set. */
int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err);

/* Writes config.json and model.safetensors, or several files and their index, in the form that
 * Hugging Face's transformers reads. Needs memory for a few rows of the widest tensor per thread.
 * Blocks and fails like convert_checkpoint_full. */
int convert_checkpoint_hf(struct io *io, const struct convert_checkpoint_options *options,
                          struct convert_checkpoint_result *ret_result, struct err *err);

#endif
