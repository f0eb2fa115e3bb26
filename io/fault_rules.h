/*
 * fault_rules — which operations on files go wrong, and how: what `--fault` says, parsed, and asked
 * at each operation.
 *
 *     RULES     = RULE {"," RULE}
 *     RULE      = OPERATION ":" EFFECT [WHEN] [":" PATH]  |  "seed=" N
 *     OPERATION = one of fault_operation's words, or "durable": begin, create, write, finalize,
 *                 commit and remove together
 *     EFFECT    = an error ("eio", "enospc", ...) | "delay=" DURATION | "hold" | "short" |
 *                 "flip" | "kill"
 *     WHEN      = "@" N, the N-th | "@" N "+", from the N-th on | "/" N, every N-th |
 *                 "%" P, P percent of them; without it, every one
 *     PATH      = the rule is for paths that contain this text, which has no comma; queue and
 *                 wait have no path, so none
 *
 *     read:eio@17                                 the 17th read fails
 *     read:delay=20ms%10:shard-000003,seed=7      every tenth read of that shard takes longer
 *
 * A rule counts what it is for: its operations, on its paths. Which ones a percentage takes is a
 * function of the seed, the rule's number, the name of the file and the offset, so they are the
 * same in whatever order threads come, and at every repetition: a bad place stays bad.
 *
 * Threads: deciding may be done by any; parsing into rules that are in use may not.
 */
#ifndef MILLRACE_IO_FAULT_RULES_H
#define MILLRACE_IO_FAULT_RULES_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Named as the table of io.h names them; the comments are where words differ. */
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
    uint32_t operations; /* a bit each */
    enum fault_effect effect;
    int error; /* -errno, of FAULT_ERROR */
    uint64_t delay_ns;
    enum fault_when when;
    uint64_t n;      /* of FAULT_NTH, FAULT_FROM, FAULT_EVERY */
    double fraction; /* of FAULT_PERCENT */
    char path[FAULT_PATH_BYTES];
    atomic_uint_least64_t seen_count;
};

/* Immutable but for the counts. */
struct fault_rules {
    uint64_t seed;
    unsigned count;
    struct fault_rule rules[FAULT_RULES_MAX];
};

/* What is to happen to one operation: the sum of all rules that hold. Zero: nothing. */
struct fault_verdict {
    bool is_hit;
    int error;         /* -errno of the first rule that says one; 0: none */
    uint64_t delay_ns; /* before it begins */
    bool holds;        /* it does not begin before it is let go */
    bool cuts, flips;
    /* The same for the same operation at the same place: where to cut, which bit to invert. */
    uint64_t cut_random, flip_random;
};

/* -EINVAL with detail: what column, which words are known there, and the nearest. An empty text is
 * no rules. */
int fault_rules_parse(const char *text, struct fault_rules *ret_rules, struct err *err);

/* Counts the operation, and dies here where a rule says so. */
struct fault_verdict fault_rules_decide(struct fault_rules *rules, enum fault_operation operation,
                                        const char *path, uint64_t offset);

const char *fault_operation_name(enum fault_operation operation);
/* Those that make outputs durable, a bit each: what "durable" says. */
uint32_t fault_operations_durable(void);

#endif
