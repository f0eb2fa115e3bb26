/*
 * initial_weights — loads initial weights from a millrace checkpoint, a consolidated file or a
 * Hugging Face model (docs/reference/models.md lists the names).
 */
#ifndef MILLRACE_TRAINER_MODELS_INITIAL_WEIGHTS_H
#define MILLRACE_TRAINER_MODELS_INITIAL_WEIGHTS_H

#include "base/log.h"
#include "io/io.h"
#include "trainer/models/model.h"

struct initial_weights;

/*
 *     initial_weights_open(io, path, &config, params, log, &weights, err);
 *     for each group: initial_weights_load_group(weights, group, values, err);
 *     initial_weights_close(weights);
 *
 * Loads one group at a time, so no rank has to hold the whole model. Blocks. Owner thread only.
 */
/* path: see ckpt/load/weights.h. log: see ckpt_find. -EINVAL if a `config.json` next to the weights
 * describes a different model. Borrows all other arguments until initial_weights_close. */
int initial_weights_open(struct io *io, const char *path, const struct model_config *config,
                         const struct params *params, const struct log *log,
                         struct initial_weights **ret_weights, struct err *err);
/* values: the group in host memory, laid out by params; padding is not written. A longer table of
 * learned positions is truncated. -ENOENT names a missing tensor, -EINVAL one with a different
 * shape. */
int initial_weights_load_group(struct initial_weights *weights, uint64_t group, float *values,
                               struct err *err);
void initial_weights_close(struct initial_weights *weights); /* NULL is fine */

#endif
