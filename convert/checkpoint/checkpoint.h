/*
 * checkpoint — exports a millrace checkpoint to one consolidated safetensors file or to a Hugging
 * Face folder.
 *
 * Several threads copy boxes in constant memory; reads are verified against the block CRCs in the
 * manifest.
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
    const char *source; /* a step or a folder of steps; _hf: of a gpt2, llama or qwen model */
    const char *target; /* _full: the file; _hf: the folder */
    const char *only;   /* _full: "model" (NULL), "optimizer", "all", or a glob over tensor names */
    /* _hf: limit of the tensors in one file; beyond it, several files and an index. 0: one file. */
    uint64_t max_file_bytes;
    struct tensor_cast cast; /* for floating-point tensors; others are never cast */
    bool force;              /* replace an existing target */
    /* Resume a stopped or killed conversion; without force an identical target is fine. */
    bool resume;
    /* Read the result back and compare it (_full: hashes, _hf: all bytes) before it is
     * committed. */
    bool verify;
    unsigned workers_count; /* threads, at most PIECES_WORKERS_MAX; 0: one per CPU, at most 4 */
    const struct log *log;
    const atomic_int *stop; /* nonzero: stop soon with -EINTR; NULL: never */
    /* bytes: includes what verify reads again. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
};

struct convert_checkpoint_result {
    uint64_t tensors_count, written_bytes;
    uint64_t cast_count; /* tensors whose dtype changed */
    uint64_t kept_bytes; /* part of written_bytes that an earlier conversion had written */
    double seconds;
    bool is_resumable; /* after -EINTR: the written data stays, for resume */
};

/* Blocks. The target appears complete and durable or not at all. Written data is removed on
 * failure, and stays for resume if the conversion was stopped or the process dies. -EEXIST,
 * -EBADMSG, -ENOENT, -EBUSY (the conversion to resume is still running), -EINTR with detail. After
 * -EINTR only ret_result->is_resumable is set. */
int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err);

/* Writes a folder in the layout of Hugging Face's transformers: config.json and model.safetensors
 * (or several files and their index). Memory is bounded by a few rows of the widest tensor per
 * thread. Blocks and fails as above. */
int convert_checkpoint_hf(struct io *io, const struct convert_checkpoint_options *options,
                          struct convert_checkpoint_result *ret_result, struct err *err);

#endif
