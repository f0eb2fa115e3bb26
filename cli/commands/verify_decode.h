/*
 * verify_decode — decodes in parallel the images that a single-threaded pass over shards finds.
 *
 * Copies members into a batch, decodes a full batch in parallel, and then reports its bad images in
 * order.
 */
#ifndef MILLRACE_CLI_COMMANDS_VERIFY_DECODE_H
#define MILLRACE_CLI_COMMANDS_VERIFY_DECODE_H

#include "base/err.h"
#include "shards/verify/verify.h"

enum {
    VERIFY_DECODE_MEMBERS_MAX = 256,    /* per batch */
    VERIFY_DECODE_BYTES_MAX = 64 << 20, /* per batch; the last member may exceed it */
};

/* Owner thread. */
struct verify_decode;

/* add and flush call on_problem for each problem. -ENOMEM, -EAGAIN. */
int verify_decode_open(void (*on_problem)(void *context, const struct verify_problem *problem),
                       void *context, struct verify_decode **ret_decode, struct err *err);
void verify_decode_close(struct verify_decode *decode); /* NULL is fine */
/* Copies the member. Blocks while a full batch is decoded. -ENOMEM. */
int verify_decode_add(struct verify_decode *decode, const struct verify_member *member,
                      struct err *err);
/* Decodes the remaining members. */
void verify_decode_flush(struct verify_decode *decode);

#endif
