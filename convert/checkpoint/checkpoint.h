/*
 * checkpoint — exports a millrace checkpoint to one consolidated safetensors file or to a Hugging
 * Face folder.
 *
 * Several threads copy in bounded memory and verify reads against the manifest's block CRCs.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_H

#include "convert/checkpoint/checkpoint_options.h"
#include "io/io.h"

struct convert_checkpoint_result {
    uint64_t tensors_count, written_bytes;
    uint64_t cast_count; /* tensors whose dtype changed */
    uint64_t kept_bytes; /* reused from an interrupted conversion */
    double seconds;
    bool is_resumable; /* after -EINTR: resume can continue */
};

/* Blocks. Publishes the target atomically and durably. A failure removes the written data. If the
 * conversion is stopped or the process dies, the data is kept for a resume. With detail: -EEXIST,
 * -EBADMSG, -ENOENT, -EBUSY (the conversion to resume is still running), -EINTR. After -EINTR, only
 * ret_result->is_resumable is set. */
int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err);

/* Writes the files that Hugging Face's transformers reads: config.json and model.safetensors, or
 * several safetensors files with an index. Needs memory for a few rows of the widest tensor per
 * thread. Blocks and fails like convert_checkpoint_full. */
int convert_checkpoint_hf(struct io *io, const struct convert_checkpoint_options *options,
                          struct convert_checkpoint_result *ret_result, struct err *err);

#endif
