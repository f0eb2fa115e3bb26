/*
 * verify — checks all or a share of a step's blocks and headers against its manifest.
 */
#ifndef MILLRACE_CKPT_TOOLS_VERIFY_H
#define MILLRACE_CKPT_TOOLS_VERIFY_H

#include "ckpt/ckpt.h"
#include "ckpt/tools/scan.h"

struct verify_options {
    struct io *io;
    const char *step_path;
    /* Selects blocks, and files whose headers and sizes are checked. */
    struct scan_share share;
    void (*bad)(void *context, const struct err *detail); /* as in ckpt_verify */
    void *context;
    const struct ckpt_progress *progress; /* counts only the share */
};
/* Like ckpt_verify, but for the share. */
int verify_share(const struct verify_options *options, struct err *err);

#endif
