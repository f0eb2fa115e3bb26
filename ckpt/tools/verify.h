/*
 * verify — what ckpt_verify is made of: a step's blocks and headers against its manifest, all of
 * them or one share of several.
 */
#ifndef MILLRACE_CKPT_TOOLS_VERIFY_H
#define MILLRACE_CKPT_TOOLS_VERIFY_H

#include "ckpt/ckpt.h"
#include "ckpt/tools/scan.h"

struct verify_options {
    struct io *io;
    const char *step_path;
    struct scan_share
        share; /* of the blocks; of the files, whose headers and sizes are looked at, likewise */
    void (*bad)(void *context, const struct err *detail); /* as of ckpt_verify */
    void *context;
    const struct ckpt_watch *watch; /* told of the share alone */
};
/* As ckpt_verify, of the share. */
int verify_share(const struct verify_options *options, struct err *err);

#endif
