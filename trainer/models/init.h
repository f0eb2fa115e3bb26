/*
 * init — a model's weights out of a checkpoint: ours, a full file, or Hugging Face's GPT-2 and
 * Llama (docs/reference/models.md has the names).
 */
#ifndef MILLRACE_TRAINER_MODELS_INIT_H
#define MILLRACE_TRAINER_MODELS_INIT_H

#include "base/log.h"
#include "io/io.h"
#include "trainer/models/model.h"

struct init;

/*
 *     init_open(io, path, &config, params, log, &init, err);
 *     for each group: init_load_group(init, group, values, err);
 *     init_close(init);
 *
 * A group at a time, so that nobody need hold all of a model to share it out. Blocks. Owner thread.
 */
/* path: what ckpt/load/weights.h takes. Where a `config.json` of transformers lies beside the
 * weights, it must describe the same model: -EINVAL. Borrows all but the path's text until
 * init_close. log: as ckpt_find's. */
int init_open(struct io *io, const char *path, const struct model_config *config,
              const struct params *params, const struct log *log, struct init **ret_init,
              struct err *err);
/* values: the group's, in host memory as params lay it out; what is between tensors stays. Learned
 * positions may be more than the model's block: the first ones are taken. -ENOENT names a missing
 * tensor, -EINVAL one of another shape. */
int init_load_group(struct init *init, uint64_t group, float *values, struct err *err);
void init_close(struct init *init); /* NULL is fine */

#endif
