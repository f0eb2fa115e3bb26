/*
 * manifest_scan — parses the tensors of a manifest without a tree of JSON nodes, which would take
 * most of the time of loading many small ones. Internal to the manifest.
 *
 * It accepts only the text that manifest_encode_tensors writes: its keys in its order, no spaces,
 * names without escapes. Everything else is left to the JSON parser, so nothing is accepted here
 * that the parser would refuse.
 */
#ifndef MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H
#define MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H

#include "base/json/jsonx_scan.h"
#include "ckpt/format/manifest.h"

/* Sets manifest's tensors, chunks and names; *ret_array is the array's place in the text. -EAGAIN:
 * the text has another form, nothing is set; -ENOMEM. Values are not checked yet
 * (manifest_check_tensors). */
int manifest_scan_tensors(const char *text, size_t bytes, struct manifest *manifest,
                          struct jsonx_span *ret_array);

#endif
