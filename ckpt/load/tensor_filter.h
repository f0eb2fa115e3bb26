/*
 * tensor_filter — selects tensors for `--only`: "all", "model", "optimizer", or a glob over names.
 */
#ifndef MILLRACE_CKPT_LOAD_TENSOR_FILTER_H
#define MILLRACE_CKPT_LOAD_TENSOR_FILTER_H

#include <stdbool.h>

/* filter: a const char *, untyped so that the function can be a callback. */
bool tensor_filter_matches(const void *filter, const char *name);

#endif
