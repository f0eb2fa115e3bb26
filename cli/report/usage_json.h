/*
 * usage_json — what a rank takes and moves (trainer/report/usage.h), as results have it: measured
 * and told before under the same names.
 */
#ifndef MILLRACE_CLI_REPORT_USAGE_JSON_H
#define MILLRACE_CLI_REPORT_USAGE_JSON_H

#include "base/jsonx_writer.h"
#include "trainer/report/usage.h"

/* "parameters", ...; lives for ever. */
const char *usage_name(enum mem_use use);
/* "memory" by use, with the total and how much of it is the device's own where that has memory;
 * "a_step": the bytes that it moves. */
void usage_write_memory(struct jsonx_writer *json, const struct usage *usage);
void usage_write_traffic(struct jsonx_writer *json, const struct usage *usage);

#endif
