#include "cli/report/usage_json.h"

#include <stdio.h>

const char *usage_name(enum mem_use use)
{
    static const char *const names[MEM_USE_COUNT] = {
        [MEM_FOR_WORK] = "work",
        [MEM_FOR_PARAMETERS] = "parameters",
        [MEM_FOR_GRADIENTS] = "gradients",
        [MEM_FOR_OPTIMIZER] = "optimizer",
        [MEM_FOR_ACTIVATIONS] = "activations",
        [MEM_FOR_COMMUNICATION] = "communication",
        [MEM_FOR_STAGING] = "staging",
        [MEM_FOR_LOADER] = "loader",
    };
    return names[use];
}

void usage_write_memory(struct jsonx_writer *json, const struct usage *usage)
{
    char key[32];
    jsonx_begin_object(json, "memory");
    for (int use = MEM_FOR_WORK + 1; use <= MEM_USE_COUNT; use++) { /* MEM_FOR_WORK comes last */
        enum mem_use at = (enum mem_use)(use % MEM_USE_COUNT);
        snprintf(key, sizeof key, "%s_bytes", usage_name(at));
        jsonx_write_u64(json, key, usage_bytes(usage, at));
    }
    jsonx_write_u64(json, "total_bytes", usage_total_bytes(usage));
    jsonx_write_u64(json, "device_bytes", usage_device_bytes(usage));
    jsonx_end_object(json);
}

void usage_write_traffic(struct jsonx_writer *json, const struct usage *usage)
{
    jsonx_begin_object(json, "a_step");
    jsonx_write_u64(json, "sent_bytes", usage->traffic.sent_bytes);
    jsonx_write_u64(json, "received_bytes", usage->traffic.received_bytes);
    jsonx_end_object(json);
}
