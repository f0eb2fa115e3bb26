/*
 * fault_rules — parses `--fault` and decides which file operations fail, and how.
 *
 *     RULES     = RULE {"," RULE}
 *     RULE      = OPERATION ":" EFFECT [WHEN] [":" PATH]  |  "seed=" N
 *     OPERATION = one of fault_operation's words, or "durable": begin, create, write, finalize,
 *                 commit and remove together
 *     EFFECT    = an error ("eio", "enospc", ...) | "delay=" DURATION | "hold" | "short" |
 *                 "flip" | "kill"
 *     WHEN      = "@" N, the N-th | "@" N "+", from the N-th on | "/" N, every N-th |
 *                 "%" P, P percent of them; default: every one
 *     PATH      = applies to paths that contain this text, which has no comma; not for queue and
 *                 wait, which have no path
 *
 *     read:eio@17                                 the 17th read fails
 *     read:delay=20ms%10:shard-000003,seed=7      every tenth read of that shard takes longer
 *
 * A rule counts only the operations and paths that it applies to. A percentage selects by a
 * function of the seed, the rule's number, the file's name and the offset. The selection therefore
 * does not depend on thread order and repeats: a bad location stays bad.
 *
 * Threads: any may call fault_rules_decide; rules in use must not be parsed into.
 */
#ifndef MILLRACE_IO_BACKENDS_FAULT_RULES_H
#define MILLRACE_IO_BACKENDS_FAULT_RULES_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Named as in the tables of io.h; comments mark the exceptions. */
enum fault_operation {
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_WAIT,  /* reap: the queue can't wait from then on */
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

enum fault_effect { FAULT_ERROR, FAULT_DELAY, FAULT_HOLD, FAULT_SHORT, FAULT_FLIP, FAULT_KILL };
enum fault_when { FAULT_ALWAYS, FAULT_NTH, FAULT_FROM, FAULT_EVERY, FAULT_PERCENT };

struct fault_rule {
    uint32_t operations; /* bit set */
    enum fault_effect effect;
    int error; /* -errno, for FAULT_ERROR */
    uint64_t delay_ns;
    enum fault_when when;
    uint64_t n;      /* for FAULT_NTH, FAULT_FROM, FAULT_EVERY */
    double fraction; /* for FAULT_PERCENT */
    char path[FAULT_PATH_BYTES];
    atomic_uint_least64_t seen_count;
};

/* Immutable but for the counts. */
struct fault_rules {
    uint64_t seed;
    unsigned count;
    struct fault_rule rules[FAULT_RULES_MAX];
};

/* What happens to one operation: all matching rules combined. Zero: nothing. */
struct fault_verdict {
    bool is_hit;
    int error;         /* -errno of the first rule that sets one; 0: none */
    uint64_t delay_ns; /* before it begins */
    bool holds;        /* waits until released before it begins */
    bool cuts, flips;
    /* Where to cut and which bit to invert: equal for the same operation at the same location. */
    uint64_t cut_random, flip_random;
};

/* -EINVAL with detail: the column, the words accepted there, and the nearest one. An empty text
 * means no rules. */
int fault_rules_parse(const char *text, struct fault_rules *ret_rules, struct err *err);

/* Counts the operation. Kills the process here if a rule says so. */
struct fault_verdict fault_rules_decide(struct fault_rules *rules, enum fault_operation operation,
                                        const char *path, uint64_t offset);

const char *fault_operation_name(enum fault_operation operation);
/* The operations that make outputs durable, as a bit set: the meaning of "durable". */
uint32_t fault_operations_durable(void);

#endif
