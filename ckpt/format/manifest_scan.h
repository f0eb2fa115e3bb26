/*
 * manifest_scan — parses a manifest's tensors without a JSON tree. This is 6 to 11 times as fast
 * and uses 1/8 to 1/5.5 of the memory (bench/results/2026-11-24-manifest.md).
 *
 * It accepts only the output of manifest_encode_tensors: the same key order, no spaces, no escapes
 * in names. manifest_parse passes other text to jsonx_parse.
 */
#ifndef MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H
#define MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H

#include "base/json/jsonx_scan.h"
#include "ckpt/format/manifest.h"

/* Sets manifest's tensors, chunks and names, and *ret_array to the array's span in the text. Does
 * not check values; manifest_check_tensors does. -EAGAIN: the text has a different form; nothing is
 * set. -ENOMEM. */
int manifest_scan_tensors(const char *text, size_t bytes, struct manifest *manifest,
                          struct jsonx_span *ret_array);

#endif
