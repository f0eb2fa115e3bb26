/*
 * read_page — the page of `millrace read --html`: the first samples as a model would get them.
 */
#ifndef MILLRACE_CLI_COMMANDS_READ_PAGE_H
#define MILLRACE_CLI_COMMANDS_READ_PAGE_H

#include "cli/report/page_items.h"

enum { READ_PAGE_SAMPLES_DEFAULT = 32, READ_PAGE_SAMPLES_MAX = 1024 };

/* Writes the page of the items to path; *ret_bytes is its size. options: of the loader; specs:
 * NAME=SPEC of its fields; samples: of the epoch. Blocks. -EEXIST unless force. */
int read_page_write(const struct page_items *items, const struct loader_options *options,
                    char *const *specs, uint64_t samples, const char *path, bool force,
                    uint64_t *ret_bytes, struct err *err);

#endif
