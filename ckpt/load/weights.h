/*
 * weights — reads tensors by name, as F32, from a millrace step (or a folder of steps), one
 * safetensors file, a `.safetensors.index.json` and its files, or a Hugging Face folder with
 * either.
 *
 *     weights_open(io, "gpt2/", &weights, log, err);
 *     if (weights_find(weights, "transformer.wte.weight", &tensor))
 *         weights_read(weights, &tensor, start, extent, values, err);
 *     weights_close(weights);
 *
 * Use from one thread only. Calls block.
 */
#ifndef MILLRACE_CKPT_LOAD_WEIGHTS_H
#define MILLRACE_CKPT_LOAD_WEIGHTS_H

#include "ckpt/format/manifest.h"
#include "ckpt/load/reader.h"

enum { WEIGHTS_FILES_MAX = 4096 };

struct weights;

struct weights_tensor {
    struct ckpt_reader *reader;
    const struct manifest_tensor *tensor;
};

/* -ENOENT, -EBADMSG with detail. log: as in ckpt_find. */
int weights_open(struct io *io, const char *path, struct weights **ret_weights,
                 const struct log *log, struct err *err);
void weights_close(struct weights *weights); /* NULL is fine */
bool weights_find(const struct weights *weights, const char *name,
                  struct weights_tensor *ret_tensor);
/* Reads a box of a tensor, row-major. The stored dtype must be F32, F16 or BF16, else -ENOTSUP. */
int weights_read(const struct weights_tensor *tensor, const uint64_t *start, const uint64_t *extent,
                 float *values, struct err *err);

#endif
