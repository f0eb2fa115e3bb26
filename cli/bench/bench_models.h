/*
 * bench_models — the models that `millrace bench train` measures by itself, and data for them out
 * of nothing.
 *
 * Text is of random letters, a token each; pictures are made_photos.h's. What is computed does not
 * depend on what they show.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_MODELS_H
#define MILLRACE_CLI_BENCH_BENCH_MODELS_H

#include "base/err.h"
#include "io/io.h"
#include "trainer/config/config.h"

#include <stdatomic.h>

enum bench_model { BENCH_GPT2, BENCH_LLAMA, BENCH_VIT, BENCH_MODELS };

/* "gpt2" */
const char *bench_model_name(enum bench_model model);

/* Immutable. What is asked for of a model; sets: as config_load's, over all of it. */
struct bench_model_options {
    const char *folder;                  /* of the data, and of the run */
    uint64_t batch, accumulation, ranks; /* samples of a micro-batch; micro-batches a rank */
    const char *const *sets;
    size_t sets_count;
};

/* The configuration of its run, checked. */
int bench_model_configure(enum bench_model model, const struct bench_model_options *options,
                          struct train_config *ret_config, struct err *err);
/* What it trains on, in an existing folder. stop: non-zero ends it with -EINTR. */
int bench_model_make_data(enum bench_model model, struct io *io, const char *folder,
                          const atomic_int *stop, const struct log *log, struct err *err);

#endif
