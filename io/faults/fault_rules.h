/*
 * fault_rules — parses `--fault` and decides which file operations fail, and how.
 *
 *     RULES     = RULE {"," RULE}
 *     RULE      = OPERATION ":" EFFECT [WHEN] [":" PATH]  |  "seed=" N  |  "depth=" N
 *     OPERATION = one of fault_operation's words, or "durable": begin, create, write, finalize,
 *                 commit and remove together
 *     EFFECT    = an error ("eio", "enospc", ...) | "delay=" DURATION | "hold" | "short" |
 *                 "flip" | "kill"
 *     WHEN      = "@" N, the N-th | "@" N "+", from the N-th on | "/" N, every N-th |
 *                 "%" P, P percent of them; default: every one
 *     PATH      = selects paths that contain this text (no comma); not for queue and wait, which
 *                 have no path
 *
 *     read:eio@17                                 the 17th read fails
 *     read:delay=20ms%10:shard-000003,seed=7      every tenth read of that shard takes longer
 *     read:delay=10ms,depth=32                    a slow disk: at most 32 requests of a queue at a
 *                                                 time
 *
 * A rule counts only the operations and paths that it applies to. A percentage selects operations
 * by a hash of the seed, the rule's number, the file's name and the offset, so the selection does
 * not depend on timing, and a bad location stays bad.
 *
 * Threads: fault_rules_decide may be called from any thread, but not while the same rules are
 * parsed.
 */
#ifndef MILLRACE_IO_FAULTS_FAULT_RULES_H
#define MILLRACE_IO_FAULTS_FAULT_RULES_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Named like the hooks in io.h; comments mark the exceptions. */
enum fault_operation {
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_WAIT,  /* reap: from then on the queue cannot wait */
    FAULT_QUEUE, /* queue_open */
    FAULT_STAT,
    FAULT_LIST,
    FAULT_FOLDER, /* make_folder */
    FAULT_REMOVE,
    FAULT_BEGIN,
    FAULT_JOIN,
    FAULT_CREATE, /* and transaction_open */
    FAULT_FINALIZE,
    FAULT_COMMIT,
    FAULT_ABORT,
    FAULT_SWEEP,
    FAULT_LOCK,
    FAULT_OPERATIONS,
};

enum { FAULT_RULES_MAX = 16, FAULT_PATH_BYTES = 128 };

/* The effects on one operation. Zero: none. */
struct fault_verdict {
    int error;         /* -errno; 0: none */
    uint64_t delay_ns; /* delay before the operation */
    bool is_hit;
    bool holds;              /* waits until released before the operation */
    bool cuts, flips, kills; /* the effects "short", "flip" and "kill" */
    /* Select where to cut and which bit to invert: equal for the same operation and location. */
    uint64_t cut_random, flip_random;
};

struct fault_rule {
    uint32_t operations;         /* bit set */
    struct fault_verdict effect; /* without the random numbers */
    uint64_t first, last, every; /* operation numbers that match, from 1; multiples of every */
    double fraction;             /* of the matching operations */
    char path[FAULT_PATH_BYTES];
    atomic_uint_least64_t seen_count;
};

/* Immutable except for the counts. */
struct fault_rules {
    uint64_t seed;
    uint64_t depth; /* limits the requests in flight of each queue opened later; 0: no limit */
    unsigned count;
    struct fault_rule rules[FAULT_RULES_MAX];
};

/* -EINVAL with detail: the column, the words accepted there, and the nearest one. An empty text
 * means no rules. */
int fault_rules_parse(const char *text, struct fault_rules *ret_rules, struct err *err);

/* Counts the operation and combines the effects of all matching rules; the first error wins. A kill
 * rule ends the process here. */
struct fault_verdict fault_rules_decide(struct fault_rules *rules, enum fault_operation operation,
                                        const char *path, uint64_t offset);

/* Returns the delay of every read of the path. Ignores rules that select some of the reads. */
uint64_t fault_rules_read_delay_ns(const struct fault_rules *rules, const char *path);

const char *fault_operation_name(enum fault_operation operation);
/* Whether "durable" includes the operation. */
bool fault_operation_is_durable(enum fault_operation operation);

#endif
