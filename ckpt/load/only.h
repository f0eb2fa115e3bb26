/*
 * only — which tensors a user means by `--only`: "all", "model", "optimizer", or a glob over their
 * names.
 */
#ifndef MILLRACE_CKPT_LOAD_ONLY_H
#define MILLRACE_CKPT_LOAD_ONLY_H

#include <stdbool.h>

/* only: const char *, as the user typed it; of this type so that it serves as a callback. */
bool only_selects(const void *only, const char *name);

#endif
