/*
 * freeze — selects parameters that are not trained, by name patterns.
 *
 *     "embed.*, blocks.0.*"        freezes these
 *     "*, !head.*"                 freezes all but the head
 *
 * Patterns are shell patterns (`*` also matches dots), separated by commas; the last match decides.
 * Frozen parameters have no gradients or moments.
 */
#ifndef MILLRACE_TRAINER_MODELS_FREEZE_H
#define MILLRACE_TRAINER_MODELS_FREEZE_H

#include "base/err.h"
#include "trainer/models/params.h"

enum { FREEZE_PATTERNS_BYTES_MAX = 1024 };

/* Freezes the selected parameters and lays out the trained ones. -EINVAL if a pattern matches
 * nothing, nothing is left to train, or only some tensors of one product (q, k, v; gate, up) would
 * be frozen. */
int freeze_params(struct params *params, const char *patterns, struct err *err);

#endif
