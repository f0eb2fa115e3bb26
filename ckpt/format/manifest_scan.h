/*
 * manifest_scan — the tensors of a manifest read without a tree of JSON nodes, which would take
 * most of the time of loading many small ones. Internal to the manifest.
 *
 * Only the text that manifest_encode_tensors writes is taken: its keys in its order, no spaces,
 * names without escapes. Whatever else a manifest may hold is left to the JSON parser, so nothing
 * is accepted here that it would refuse.
 */
#ifndef MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H
#define MILLRACE_CKPT_FORMAT_MANIFEST_SCAN_H

#include "base/jsonx_scan.h"
#include "ckpt/format/manifest.h"

/* Gives manifest its tensors, chunks and names; says where the array stands in the text. -EAGAIN:
 * not such a text, nothing was given; -ENOMEM. What the numbers mean is still to be checked
 * (manifest_check_tensors). */
int manifest_scan_tensors(const char *text, size_t bytes, struct manifest *manifest,
                          struct jsonx_span *ret_array);

#endif
