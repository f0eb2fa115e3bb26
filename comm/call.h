/*
 * call — describes a collective for comparison between ranks.
 */
#ifndef MILLRACE_COMM_CALL_H
#define MILLRACE_COMM_CALL_H

#include <stddef.h>
#include <stdint.h>

enum { COMM_CALL_LINE_BYTES = 160 };

/* Has no padding, because ranks compare it as bytes. Texts from another rank may be
 * unterminated. */
struct comm_call {
    uint64_t communicator_id; /* unique; the same on all of its ranks */
    uint64_t sequence_number; /* counts calls on a communicator, from 1 */
    uint64_t size;
    char name[24], unit[16], purpose[64];
};

/* Truncates long texts. purpose: may be NULL. */
void comm_call_init(struct comm_call *call, const char *name, uint64_t size, const char *unit,
                    const char *purpose);
/* Writes, for example, "all_gather of 8 bytes for the weights". */
void comm_call_format(const struct comm_call *call, char line[COMM_CALL_LINE_BYTES]);

#endif
