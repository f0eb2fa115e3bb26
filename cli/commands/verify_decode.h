/*
 * verify_decode — images of a pass over shards, decoded whole by all CPUs while the pass goes on by
 * one.
 *
 * Members are copied into a batch; a full batch is decoded in parallel, and what is bad in it is
 * reported in the order of the members. So reports come up to a batch later than the pass reaches
 * the member.
 */
#ifndef MILLRACE_CLI_COMMANDS_VERIFY_DECODE_H
#define MILLRACE_CLI_COMMANDS_VERIFY_DECODE_H

#include "base/err.h"
#include "shards/verify.h"

enum {
    VERIFY_DECODE_MEMBERS_MAX = 256,    /* of a batch */
    VERIFY_DECODE_BYTES_MAX = 64 << 20, /* of a batch, and one member beyond it */
};

/* Owner thread. */
struct verify_decode;

/* bad: each problem, from the owner's thread during add and flush. Gives the decoder. -ENOMEM,
 * -EAGAIN. */
int verify_decode_open(void (*bad)(void *context, const struct verify_problem *problem),
                       void *context, struct verify_decode **ret_decode, struct err *err);
void verify_decode_close(struct verify_decode *decode); /* NULL is fine */
/* Copies the member. May block for a batch. -ENOMEM. */
int verify_decode_add(struct verify_decode *decode, const struct verify_member *member,
                      struct err *err);
/* Decodes what is left. */
void verify_decode_flush(struct verify_decode *decode);

#endif
