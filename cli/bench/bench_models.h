/*
 * bench_models — the built-in models of `millrace bench train`, and generated data for them.
 *
 * Text is random letters, one token each; images come from synthetic_photos.h. The content does not
 * affect the cost of computation.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_MODELS_H
#define MILLRACE_CLI_BENCH_BENCH_MODELS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/config/config.h"

#include <stdatomic.h>

enum bench_model { BENCH_GPT2, BENCH_LLAMA, BENCH_VIT, BENCH_MODEL_COUNT };

const char *bench_model_name(enum bench_model model);

struct bench_model_options {
    const char *folder;                  /* for the data and the run */
    uint64_t batch, accumulation, ranks; /* samples per micro-batch; micro-batches per rank */
    const char *const *sets;             /* as for config_load; override all other settings */
    size_t sets_count;
};

int bench_model_configure(enum bench_model model, const struct bench_model_options *options,
                          struct train_config *ret_config, struct err *err);
/* Generates training data in an existing folder. Nonzero *stop: -EINTR. */
int bench_model_generate_data(enum bench_model model, struct io *io, const char *folder,
                              const atomic_int *stop, const struct log *log, struct err *err);

#endif
