/*
 * usage_json — writes what a rank uses and transfers (trainer/report/usage.h) as JSON, with the
 * same names for measured and predicted values.
 */
#ifndef MILLRACE_CLI_REPORT_USAGE_JSON_H
#define MILLRACE_CLI_REPORT_USAGE_JSON_H

#include "base/json/jsonx_writer.h"
#include "trainer/report/usage.h"

/* "parameters", ...; static. */
const char *usage_name(enum mem_use use);
/* "memory": bytes by use, the total, and the part on the device if it has its own memory. "a_step":
 * the bytes transferred per step. */
void usage_write_memory(struct jsonx_writer *json, const struct usage *usage);
void usage_write_traffic(struct jsonx_writer *json, const struct usage *usage);

#endif
