/*
 * usage_json — writes a rank's memory and traffic (trainer/report/usage.h) as JSON, with the same
 * names for measured and predicted values.
 */
#ifndef MILLRACE_CLI_REPORT_USAGE_JSON_H
#define MILLRACE_CLI_REPORT_USAGE_JSON_H

#include "base/json/jsonx_writer.h"
#include "trainer/report/usage.h"

const char *usage_name(enum mem_use use);
/* Writes "memory": bytes by use, in total and, if the device has its own memory, on the device; and
 * "a_step": bytes transferred per step. */
void usage_write_memory(struct jsonx_writer *json, const struct usage *usage);
void usage_write_traffic(struct jsonx_writer *json, const struct usage *usage);

#endif
