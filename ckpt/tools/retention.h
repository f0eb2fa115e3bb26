/*
 * retention — decides which steps of a folder are kept. Pure.
 *
 * A step is kept if it is the newest, is among the newest `last`, is a multiple of `every`, is
 * among the best `count` by a metric, or was just saved. Applying the rules after each save or once
 * at the end gives the same result: new steps cannot move an older step into the best `count`.
 */
#ifndef MILLRACE_CKPT_TOOLS_RETENTION_H
#define MILLRACE_CKPT_TOOLS_RETENTION_H

#include "ckpt/ckpt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retention_step {
    uint64_t step;
    bool is_saved;
    bool has_metric;
    double metric;    /* not NaN */
    unsigned reasons; /* out: bits of enum ckpt_keep_reason; 0: removed */
};

/* steps: ascending, without duplicates. Of steps with equal metrics, the earlier is better. */
void retention_decide(const struct ckpt_keep_rules *keep, struct retention_step *steps,
                      size_t count);

#endif
