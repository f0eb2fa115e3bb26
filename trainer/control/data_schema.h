/*
 * data_schema — the meaning of the training data's labels and tokens, as recorded in a checkpoint's
 * state (docs/reference/checkpoints.md).
 *
 * The loader compares validation data with it (loader_options.reference). During training the
 * reference is the training data's schema; in `millrace eval` it is the one recorded in the
 * checkpoint.
 */
#ifndef MILLRACE_TRAINER_CONTROL_DATA_SCHEMA_H
#define MILLRACE_TRAINER_CONTROL_DATA_SCHEMA_H

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "loader/loader.h"

/* Owner thread. A zeroed struct records nothing. */
struct data_schema {
    /* Its strings are in memory; path is the checkpoint's, borrowed. */
    struct loader_schema schema;
    bool is_recorded;
    void *memory;
};

/* Writes the key "data" of the state. */
void data_schema_encode(struct jsonx_writer *w, const struct loader_schema *schema);
/* Reads the key "data" from the state of the checkpoint at path. Old checkpoints lack it: then
 * is_recorded is false. -EBADMSG, -ENOMEM. */
int data_schema_decode(const struct json_t *state, const char *path, struct data_schema *ret_schema,
                       struct err *err);
void data_schema_deinit(struct data_schema *schema);

/* Checks that the training data means the same as when the state was saved: the same class names by
 * number and the same tokens. -ESTALE with detail. */
int data_schema_compare(const struct data_schema *saved, const struct loader_schema *now,
                        struct err *err);

#endif
