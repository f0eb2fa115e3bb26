/*
 * read_sink — where `millrace read` puts the samples: their keys on stdout, their bytes or pixels
 * in files, their digests in two sums.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_SINK_H
#define MILLRACE_CLI_COMMANDS_READ_SINK_H

#include "base/err.h"
#include "base/str.h"
#include "io/io.h"
#include "loader/loader.h"

#include <stdbool.h>
#include <stdint.h>

enum read_print { READ_PRINT_KEYS, READ_PRINT_JSON, READ_PRINT_NONE };

/* Zero but for the first seven. Owner thread. */
struct read_sink {
    enum read_print print;
    enum loader_decode decode;
    const char *folder; /* for files; NULL: none are written */
    bool force;         /* existing files give way */
    bool is_mix;      /* files go below a folder a dataset and epoch of its own: keys come again */
    struct io *io;    /* of folder */
    bool is_terminal; /* where keys are printed: a terminal gets them as display.h says */

    uint64_t samples_count, skipped_count, files_count;
    uint64_t once, order; /* digests, as in sampler/sampler.h */
    struct str name, line, file;
    char made[IO_PATH_BYTES_MAX]; /* the folder that was made last */
};

/* Takes the items in their order; those that were skipped are counted and in no digest. -EEXIST,
 * -EBADMSG for a key that leads out of the folder, what io says. */
int read_sink_take(struct read_sink *sink, const struct batch *batch, struct err *err);
void read_sink_deinit(struct read_sink *sink);

#endif
