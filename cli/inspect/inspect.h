/*
 * inspect — the parts of `millrace inspect`, one per kind of file.
 */
#ifndef MILLRACE_CLI_INSPECT_INSPECT_H
#define MILLRACE_CLI_INSPECT_INSPECT_H

#include "base/err.h"
#include "base/json/jsonx_writer.h"
#include "base/log.h"
#include "base/str.h"
#include "io/io.h"

#include <stdbool.h>

/* Borrows all pointers. */
struct inspection {
    struct io *io;
    struct jsonx_writer *json; /* inside the result's object */
    bool lists_shards;         /* of a dataset */
    const struct log *log;
    struct err *err;
};

int inspect_dataset(struct inspection *in, const char *path);
int inspect_datasets(struct inspection *in, const char *path); /* each dataset in a folder */
int inspect_shard(struct inspection *in, const char *path);
/* for a folder: its newest complete checkpoint */
int inspect_checkpoint(struct inspection *in, const char *path);
/* Appends the configuration of the run that saved the checkpoint, as YAML or JSON. */
int inspect_config(struct inspection *in, const char *path, bool as_json, struct str *out);
int inspect_safetensors(struct inspection *in, const char *path);
int inspect_npy(struct inspection *in, const char *path);
int inspect_jpeg(struct inspection *in, const char *path);
int inspect_image(struct inspection *in, const char *path); /* PNG, WebP, PPM */

#endif
