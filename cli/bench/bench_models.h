/*
 * bench_models — the built-in models of `millrace bench train`, and generated data for them.
 *
 * Text consists of random letters, one token each; images come from synthetic_photos.h. The cost of
 * computation does not depend on the content.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_MODELS_H
#define MILLRACE_CLI_BENCH_BENCH_MODELS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/config/config.h"

#include <stdatomic.h>

enum bench_model { BENCH_GPT2, BENCH_LLAMA, BENCH_VIT, BENCH_MODEL_COUNT };

/* "gpt2" */
const char *bench_model_name(enum bench_model model);

/* Options of a model's run. sets: as for config_load; they override all other settings. */
struct bench_model_options {
    const char *folder;                  /* for data and run */
    uint64_t batch, accumulation, ranks; /* samples per micro-batch; micro-batches per rank */
    const char *const *sets;
    size_t sets_count;
};

/* Returns the checked configuration of the model's run. */
int bench_model_configure(enum bench_model model, const struct bench_model_options *options,
                          struct train_config *ret_config, struct err *err);
/* Generates the model's training data in an existing folder. stop: nonzero ends it with -EINTR. */
int bench_model_make_data(enum bench_model model, struct io *io, const char *folder,
                          const atomic_int *stop, const struct log *log, struct err *err);

#endif
