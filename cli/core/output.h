/*
 * output — prints a result on stdout, as one JSON document or as text for people.
 *
 *     struct output output;
 *     output_begin(&output);
 *     jsonx_write_u64(&output.json, "samples_count", 3068);
 *     return output_end(&output, common->json, stdout, err);
 *
 * Text is generated from the same document. Units move from keys to values: "mean_sample_bytes":
 * 28774 becomes `mean sample 28.1 KiB (28774)`, or `28.1 KiB` in a table. A `_share` or `_fraction`
 * becomes a percentage. Nested objects are indented; an array of objects becomes a table. On a
 * terminal, long texts wrap, and a table that is too wide is printed row by row.
 */
#ifndef MILLRACE_CLI_CORE_OUTPUT_H
#define MILLRACE_CLI_CORE_OUTPUT_H

#include "base/err.h"
#include "base/json/jsonx_writer.h"

#include <stdbool.h>
#include <stdio.h>

/* Between begin and end, json is inside the document's object. Owner thread. */
struct output {
    struct str text;
    struct jsonx_writer json;
};

void output_begin(struct output *output);
/* Prints to stream and releases the output. -ENOMEM, -EIO. */
int output_end(struct output *output, bool as_json, FILE *stream, struct err *err);
/* Like output_end on stdout, for verbs that mainly write files. With quiet, prints nothing
 * unless as_json. */
int output_end_report(struct output *output, bool as_json, bool quiet, struct err *err);
void output_abort(struct output *output);

/* Flushes stdout. -EIO (-ENOSPC, -EPIPE) if anything could not be written. */
int output_flush(struct err *err);

#endif
