/*
 * power — what a disk may hold after the power went at some instant of a history.
 *
 * The model takes from POSIX no more than fsync, and from journalling file systems (ext4, xfs,
 * btrfs) no more than that single operations on names are atomic:
 *
 *   1. What was fsynced is there: a file's bytes and size if they were written before the fsync of
 *      that file began, a folder's names if they were made, changed or removed before the fsync of
 *      that folder began, and the fsync has returned. Of a file that several opened, an fsync is of
 *      what its own opener wrote: others may have done so on other machines. An fsync of a file
 *      says nothing of its name, an fsync of a folder nothing of the files in it.
 *   2. Everything else that has begun is there or not, in any combination: between folders, files,
 *      names and bytes nothing has an order. Within that, operations on one name of a folder keep
 *      their order, and a rename or exchange is there as a whole or not.
 *   3. A write may be torn: of each unit (of 512 or 4096 bytes) the disk has what stood there after
 *      some number of the writes that touch it. A size may be there without the bytes, and the
 *      bytes without the size. Bytes within the size that were never written are zeros, or
 *      anything.
 *   4. One unit of 512 bytes is old or new. What was durable does not decay.
 *
 * So an inode's number, times, permissions and places on the disk are no part of it; and file
 * systems that order more (ext4 with data=ordered commits names in order) allow some of these
 * states only.
 */
#ifndef MILLRACE_TESTS_CRASH_POWER_H
#define MILLRACE_TESTS_CRASH_POWER_H

#include "tests/crash/history.h"

/* What became of the operations that are not durable. */
enum power_kind {
    POWER_NONE,    /* none is there */
    POWER_ALL,     /* all are: what a killed process leaves */
    POWER_ALL_BUT, /* all but op, and what can't be without it */
    POWER_ONLY,    /* op, and what it can't be without */
    POWER_SOME,    /* as chance has it, from seed */
};

struct power_choice {
    enum power_kind kind;
    uint32_t op; /* its number in the history */
    uint64_t seed;
};

/* Whether the operation has begun by then, and changes anything, and is not durable: one that
 * choices are about. */
bool power_is_open(const struct history_op *op, uint32_t instant);
/* The tree of one state. The history is closed. */
void power_state(const struct history *history, uint32_t instant, struct power_choice choice,
                 struct tree *ret_tree);

#endif
