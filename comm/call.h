/*
 * call — describes the collective that a rank is about to make, for comparison with other ranks.
 */
#ifndef MILLRACE_COMM_CALL_H
#define MILLRACE_COMM_CALL_H

#include <stddef.h>
#include <stdint.h>

enum { COMM_CALL_LINE_BYTES = 160 };

/* Has no padding, because it is compared as bytes. Texts from another rank may be unterminated. */
struct comm_call {
    uint64_t communicator; /* the same on all its ranks, unique per communicator */
    uint64_t number;       /* the first call on a communicator is 1 */
    uint64_t size;
    char name[24], unit[16], purpose[64];
};

/* purpose: NULL is fine. Texts that are too long are truncated. */
void comm_call_init(struct comm_call *call, const char *name, uint64_t size, const char *unit,
                    const char *purpose);
/* Writes, for example, "all_gather of 8 bytes for the weights". */
void comm_call_format(const struct comm_call *call, char line[COMM_CALL_LINE_BYTES]);

#endif
