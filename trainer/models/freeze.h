/*
 * freeze — which parameters stay as they are: by patterns of their names.
 *
 *     "embed.*, blocks.0.*"        these
 *     "*, !head.*"                 all but these
 *
 * Patterns are a shell's (`*` goes over dots too), with commas between them; of those that match a
 * name the last one counts. What is frozen has no gradients and no moments, and no update changes
 * it.
 */
#ifndef MILLRACE_TRAINER_MODELS_FREEZE_H
#define MILLRACE_TRAINER_MODELS_FREEZE_H

#include "base/err.h"
#include "trainer/models/params.h"

enum { FREEZE_PATTERNS_BYTES_MAX = 1024 };

/* Freezes what the patterns say ("": nothing), and lays out what is trained. -EINVAL where a
 * pattern matches nothing, where nothing is left to train, and where of tensors that one product
 * serves (q, k, v; gate, up) some would be frozen and others not. */
int freeze_params(struct params *params, const char *patterns, struct err *err);

#endif
