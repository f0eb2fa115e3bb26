/*
 * run_data — the training data of a run: batches, position, upload to the device.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_DATA_H
#define MILLRACE_TRAINER_RUN_RUN_DATA_H

#include "loader/loader.h"
#include "trainer/config/epochs.h"
#include "trainer/control/data_schema.h"
#include "trainer/models/batch_upload.h"
#include "trainer/run/parts/run_ranks.h"

/* Zero initially. Owner thread. */
struct run_data {
    struct batching batching;
    struct epochs epochs;
    struct loader *loader;
    struct loader_source mix[MIX_DATASETS_MAX]; /* the configuration owns the strings */
    struct loader_field text;                   /* the configuration owns the strings */
    struct loader_shape shape;
    /* Evaluations map labels to its class names: the training data's, or for `millrace eval` the
     * checkpoint's. */
    struct loader_schema reference_schema;
    struct data_schema saved_schema;
    uint64_t validation_fingerprint; /* 0: unknown */
    uint64_t delivered_count;        /* to all ranks, since the data was opened */
    struct batch_upload upload;
};

void run_data_close(struct run_data *data); /* safe on a zeroed struct */
void run_data_set_batch(struct run_data *data, const struct train_config *original_config,
                        uint64_t epoch);
/* Sets the shape, and the config's classes and vocabulary if auto. */
void run_data_set_shape(struct run_data *data, const struct loader_shape *shape,
                        struct train_config *config);
/* Gets the position, with digests over all ranks. Collective. */
int run_data_cursor(const struct run_data *data, const struct run_ranks *ranks,
                    struct cursor *ret_cursor, struct err *err);

#endif
