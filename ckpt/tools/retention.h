/*
 * retention — decides which steps of a folder are kept. Pure. prune.h finds and removes steps.
 *
 * A step is kept for any of these reasons: it is among the newest `last`, or the newest of all; its
 * number is a multiple of `every`; it is among the best `count` by a metric; it was just saved. So
 * the verdict on a folder is the same whether the rules are applied after each save or once at the
 * end: a removed step is not the best of fewer steps, and would not be of more.
 */
#ifndef MILLRACE_CKPT_TOOLS_RETENTION_H
#define MILLRACE_CKPT_TOOLS_RETENTION_H

#include "ckpt/ckpt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retention_step {
    uint64_t step;
    bool is_saved; /* just now: kept, whatever the rules */
    bool has_metric;
    double metric;    /* not NaN */
    unsigned reasons; /* out: of enum ckpt_reason; 0: removed */
};

/* steps: in ascending order, each number once. Of two equally good steps the earlier is better. */
void retention_decide(const struct ckpt_keep *keep, struct retention_step *steps, size_t count);

#endif
