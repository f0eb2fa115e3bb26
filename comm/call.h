/*
 * call — a collective that a rank is about to make, as ranks tell each other of it.
 */
#ifndef MILLRACE_COMM_CALL_H
#define MILLRACE_COMM_CALL_H

#include <stddef.h>
#include <stdint.h>

enum { COMM_CALL_LINE_BYTES = 160 };

/* Has no padding, because it is compared as bytes. Texts that come from another rank need not be
 * terminated. */
struct comm_call {
    uint64_t communicator; /* the same on all its ranks, and another for each communicator */
    uint64_t number;       /* the first call on a communicator is 1 */
    uint64_t size;
    char name[24], unit[16], purpose[64];
};

/* purpose: NULL is fine. What is too long is cut. */
void comm_call_init(struct comm_call *call, const char *name, uint64_t size, const char *unit,
                    const char *purpose);
/* "all_gather of 8 bytes for the weights". */
void comm_call_format(const struct comm_call *call, char line[COMM_CALL_LINE_BYTES]);

#endif
