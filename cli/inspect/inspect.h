/*
 * inspect — the parts of `millrace inspect`, a file a subject: each writes what its kind of thing
 * is and holds.
 */
#ifndef MILLRACE_CLI_INSPECT_INSPECT_H
#define MILLRACE_CLI_INSPECT_INSPECT_H

#include "base/err.h"
#include "base/jsonx_writer.h"
#include "base/log.h"
#include "base/str.h"
#include "io/io.h"

#include <stdbool.h>

/* What the parts share. Borrows all. */
struct inspection {
    struct io *io;
    struct jsonx_writer *json; /* within the result's object */
    bool lists_shards;         /* of a dataset */
    const struct log *log;
    struct err *err;
};

int inspect_dataset(struct inspection *in, const char *path);
int inspect_datasets(struct inspection *in, const char *path); /* each of a folder's */
int inspect_shard(struct inspection *in, const char *path);
int inspect_checkpoint(struct inspection *in,
                       const char *path); /* of a folder the newest whole one */
/* Appends the configuration of the run that saved the checkpoint: YAML that `train` takes, or
 * JSON. */
int inspect_config(struct inspection *in, const char *path, bool as_json, struct str *out);
int inspect_safetensors(struct inspection *in, const char *path);
int inspect_npy(struct inspection *in, const char *path);
int inspect_jpeg(struct inspection *in, const char *path);
int inspect_image(struct inspection *in, const char *path); /* PNG, WebP, PPM */

#endif
