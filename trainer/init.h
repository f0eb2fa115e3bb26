/*
 * init — a model's weights out of a checkpoint: ours, a full file, or Hugging Face's GPT-2 and Llama (docs/models.md has the names).
 */
#ifndef MILLRACE_TRAINER_INIT_H
#define MILLRACE_TRAINER_INIT_H

#include "base/log.h"
#include "io/io.h"
#include "trainer/model.h"

/* path: what ckpt/weights.h takes. Where a `config.json` of transformers lies beside the weights, it must describe the same
 * model. Learned positions may be more than the model's block: the first ones are taken. weights: an arena of host memory laid out by
 * params, F32. On failure it holds anything. -ENOENT names a missing tensor, -EINVAL one of another shape. log: as ckpt_find's. Blocks. */
int init_load(struct io *io, const char *path, const struct model_config *config, const struct params *params,
              float *weights, const struct log *log, struct err *err);

#endif
