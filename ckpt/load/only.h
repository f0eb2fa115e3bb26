/*
 * only — selects tensors for `--only`: "all", "model", "optimizer", or a glob over their names.
 */
#ifndef MILLRACE_CKPT_LOAD_ONLY_H
#define MILLRACE_CKPT_LOAD_ONLY_H

#include <stdbool.h>

/* only: const char *, the user's text; untyped so that the function serves as a callback. */
bool only_selects(const void *only, const char *name);

#endif
