/*
 * data_schema — what labels and tokens of the training data mean, as a checkpoint's state records
 * it (docs/reference/checkpoints.md).
 *
 * The loader holds validation data against it (loader_options.reference): while a run trains,
 * against that of its training data, and in `millrace eval`, against what the checkpoint recorded.
 */
#ifndef MILLRACE_TRAINER_RUN_DATA_SCHEMA_H
#define MILLRACE_TRAINER_RUN_DATA_SCHEMA_H

#include "base/jsonx.h"
#include "base/jsonx_writer.h"
#include "loader/loader.h"

/* Owner thread. A zeroed one records nothing. */
struct data_schema {
    struct loader_schema
        schema; /* its texts lie in memory, and path is the checkpoint's, borrowed */
    bool is_recorded;
    void *memory;
};

/* Writes the key "data" of the state. */
void data_schema_encode(struct jsonx_writer *w, const struct loader_schema *schema);
/* Reads it from the state of the checkpoint at path. Old checkpoints lack it: is_recorded is false.
 * -EBADMSG, -ENOMEM. */
int data_schema_decode(const struct json_t *state, const char *path, struct data_schema *ret_schema,
                       struct err *err);
void data_schema_deinit(struct data_schema *schema);

/* Whether training data means the same as when the state was saved: the same classes by number, the
 * same tokens. -ESTALE with detail. */
int data_schema_compare(const struct data_schema *saved, const struct loader_schema *now,
                        struct err *err);

#endif
