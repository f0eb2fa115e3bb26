/*
 * data_schema — the meaning of the training data's labels and tokens, as recorded in a
 * checkpoint's state (docs/reference/checkpoints.md).
 *
 * The loader compares validation data with it (loader_options.reference).
 */
#ifndef MILLRACE_TRAINER_CONTROL_DATA_SCHEMA_H
#define MILLRACE_TRAINER_CONTROL_DATA_SCHEMA_H

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "loader/loader.h"

/* Owner thread. Zero initially: nothing is recorded. */
struct data_schema {
    /* Its strings point into memory, except path, which is borrowed. */
    struct loader_schema schema;
    bool is_recorded;
    void *memory;
};

void data_schema_encode(struct jsonx_writer *w, const struct loader_schema *schema);
/* Reads the key "data" from the state of the checkpoint at path. is_recorded is false for old
 * checkpoints, which lack the key. -EBADMSG, -ENOMEM. */
int data_schema_decode(const struct json_t *state, const char *path, struct data_schema *ret_schema,
                       struct err *err);
void data_schema_deinit(struct data_schema *schema);

/* Checks that the training data has the saved class names and tokens. -ESTALE with detail. */
int data_schema_compare(const struct data_schema *saved, const struct loader_schema *now,
                        struct err *err);

#endif
