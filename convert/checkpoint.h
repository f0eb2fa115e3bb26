/*
 * checkpoint — a checkpoint of ours into one full safetensors file, or a folder of Hugging Face's.
 *
 * Box copies by several threads in constant memory, verified against the manifest's block CRCs
 * while they are read.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_H
#define MILLRACE_CONVERT_CHECKPOINT_H

#include "base/err.h"
#include "base/log.h"
#include "ckpt/load/flat.h"
#include "io/io.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct convert_checkpoint_options {
    const char *source; /* a step or a folder of steps; for _hf of a gpt2 or llama */
    const char *target; /* the file; for _hf the folder */
    const char *only;   /* _full: "model" (NULL), "optimizer", "all", or a glob over tensor names */
    uint64_t
        /* _hf: of tensors in one file; more makes several and an index. 0: one file */
        max_file_bytes;
    struct flat_cast cast; /* of floating-point tensors; others are never cast */
    bool force;            /* an existing target gives way */
    bool
        /* go on in what a conversion that was stopped or killed left; without force a target that
         * is the same is fine */
        resume;
    bool
        /* read the result back and compare it (_full: the hashes, _hf: all bytes), before it has
         * its name */
        verify;
    unsigned workers_count; /* threads, PIECES_WORKERS_MAX at most; 0: one a CPU, 4 at most */
    const struct log *log;
    const atomic_int *stop; /* non-zero: end soon with -EINTR; NULL: never */
    void (*progress)(void *context, uint64_t bytes_done,
                     uint64_t bytes); /* bytes: what verify reads again too */
    void *progress_context;
};

struct convert_checkpoint_result {
    uint64_t tensors_count, written_bytes;
    uint64_t cast_count; /* tensors that have another dtype than before */
    uint64_t kept_bytes; /* of those written: a conversion before had written them already */
    double seconds;
    bool is_resumable; /* of -EINTR: what was written stays, for resume */
};

/* Blocks. The target appears whole and durable or not at all. What was written is removed where it
 * fails, and stays for resume where it was stopped or the process dies. -EEXIST, -EBADMSG, -ENOENT,
 * -EBUSY (the conversion to resume goes on), -EINTR with detail; of -EINTR ret_result->is_resumable
 * alone is set. */
int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err);

/* A folder as Hugging Face's transformers saves: config.json, model.safetensors (or the files of a
 * sharded one and their index). Memory is bounded by a few rows of the widest tensor a thread.
 * Blocks, and fails, as above. */
int convert_checkpoint_hf(struct io *io, const struct convert_checkpoint_options *options,
                          struct convert_checkpoint_result *ret_result, struct err *err);

#endif
