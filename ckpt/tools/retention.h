/*
 * retention — which steps of a folder stay: pure, steps in, verdicts out. Finding and removing them
 * is prune's (prune.h).
 *
 * A step stays for any of these reasons: it is among the newest `last`, or the newest of all; its
 * number is a multiple of `every`; it is among the best `count` by a metric; it was saved just now.
 * So the verdict on a folder is the same whether rules were applied after each save or once at the
 * end: what goes is not the best of fewer steps, and would not be of more.
 */
#ifndef MILLRACE_CKPT_TOOLS_RETENTION_H
#define MILLRACE_CKPT_TOOLS_RETENTION_H

#include "ckpt/ckpt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retention_step {
    uint64_t step;
    bool is_saved; /* just now: it stays whatever the rules say */
    bool has_metric;
    double metric;    /* no NaN */
    unsigned reasons; /* out: of enum ckpt_reason; 0: it goes */
};

/* steps: by rising number, each number once. Of two equally good steps the earlier is the better
 * one. */
void retention_decide(const struct ckpt_keep *keep, struct retention_step *steps, size_t count);

#endif
