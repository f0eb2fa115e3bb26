/*
 * read_sink — outputs the samples of `millrace read`: keys on stdout, fields or pixels as files,
 * and two digests.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_SINK_H
#define MILLRACE_CLI_COMMANDS_READ_SINK_H

#include "base/err.h"
#include "base/str.h"
#include "cli/commands/read_page.h"
#include "cli/report/read_fields.h"
#include "io/io.h"
#include "loader/loader.h"

#include <stdbool.h>
#include <stdint.h>

enum read_print { READ_PRINT_KEYS, READ_PRINT_JSON, READ_PRINT_NONE };

/* Set the first ten members and zero the others. Owner thread. */
struct read_sink {
    enum read_print print;
    enum loader_decode decode;
    bool is_normalized; /* images are not RGB bytes */
    const struct read_fields *fields;
    const char *folder; /* for output files; NULL: none */
    bool force;
    /* uses a folder per dataset and epoch, because keys may repeat */
    bool is_mix;
    struct io *io;           /* backend of folder */
    bool is_terminal;        /* stdout is a terminal: formats keys with display.h */
    struct page_items *page; /* takes the first READ_PAGE_SAMPLES_MAX samples; NULL: none */

    uint64_t samples_count, skipped_count, files_count;
    uint64_t set_digest, sequence_digest; /* as in sampler/sampler.h */
    struct str name, line, file;
    char last_folder[IO_PATH_BYTES_MAX]; /* created last */
};

/* Outputs items in order; counts skipped ones, without adding them to the digests. -EEXIST;
 * -EBADMSG: a key would leave the folder; I/O errors. */
int read_sink_write(struct read_sink *sink, const struct batch *batch, struct err *err);
void read_sink_deinit(struct read_sink *sink);

#endif
