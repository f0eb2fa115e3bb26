/*
 * usage_json — writes a rank's memory and traffic as JSON, measured or predicted.
 */
#ifndef MILLRACE_CLI_REPORT_USAGE_JSON_H
#define MILLRACE_CLI_REPORT_USAGE_JSON_H

#include "base/json/jsonx_writer.h"
#include "trainer/report/usage.h"

const char *usage_name(enum mem_use use);
/* Writes "memory": bytes by use, in total and on the device. */
void usage_write_memory(struct jsonx_writer *json, const struct usage *usage);
/* Writes "a_step": bytes transferred per step. */
void usage_write_traffic(struct jsonx_writer *json, const struct usage *usage);

#endif
