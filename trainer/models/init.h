/*
 * init — loads initial weights from a millrace checkpoint, a consolidated file, or a Hugging Face
 * model (docs/reference/models.md lists the names).
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
 * Loads one group at a time, so no rank has to hold the whole model. Blocks. Owner thread only.
 */
/* path: see ckpt/load/weights.h. log: see ckpt_find. -EINVAL if a `config.json` next to the weights
 * describes a different model. Borrows all other arguments until init_close. */
int init_open(struct io *io, const char *path, const struct model_config *config,
              const struct params *params, const struct log *log, struct init **ret_init,
              struct err *err);
/* values: the group in host memory, laid out by params; padding is not written. A longer table of
 * learned positions is truncated. -ENOENT names a missing tensor, -EINVAL one with a different
 * shape. */
int init_load_group(struct init *init, uint64_t group, float *values, struct err *err);
void init_close(struct init *init); /* NULL is fine */

#endif
