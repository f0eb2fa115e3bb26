/*
 * usage_json — see usage_json.h.
 */
#include "cli/usage_json.h"

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

void usage_write_memory(struct json_writer *json, const struct usage *usage)
{
    char key[32];
    json_begin_object(json, "memory");
    for (int use = MEM_FOR_WORK + 1; use <= MEM_USE_COUNT; use++) { /* the work last */
        enum mem_use at = (enum mem_use)(use % MEM_USE_COUNT);
        snprintf(key, sizeof key, "%s_bytes", usage_name(at));
        json_write_u64(json, key, usage_bytes(usage, at));
    }
    json_write_u64(json, "total_bytes", usage_total_bytes(usage));
    json_write_u64(json, "device_bytes", usage_device_bytes(usage));
    json_end_object(json);
}

void usage_write_traffic(struct json_writer *json, const struct usage *usage)
{
    json_begin_object(json, "a_step");
    json_write_u64(json, "sent_bytes", usage->traffic.sent_bytes);
    json_write_u64(json, "received_bytes", usage->traffic.received_bytes);
    json_end_object(json);
}
