/*
 * call — see call.h.
 */
#include "comm/call.h"

#include <inttypes.h>
#include <stdio.h>

void comm_call_init(struct comm_call *call, const char *name, uint64_t size, const char *unit,
                    const char *purpose)
{
    *call = (struct comm_call){.size = size};
    snprintf(call->name, sizeof call->name, "%s", name);
    snprintf(call->unit, sizeof call->unit, "%s", unit);
    snprintf(call->purpose, sizeof call->purpose, "%s", purpose ? purpose : "");
}

void comm_call_format(const struct comm_call *call, char line[COMM_CALL_LINE_BYTES])
{
    snprintf(line, COMM_CALL_LINE_BYTES, "%.*s of %" PRIu64 " %.*s%s%.*s",
             (int)sizeof call->name - 1, call->name, call->size, (int)sizeof call->unit - 1,
             call->unit, *call->purpose ? " for " : "", (int)sizeof call->purpose - 1,
             call->purpose);
}
