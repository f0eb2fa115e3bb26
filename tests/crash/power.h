/*
 * power — the possible contents of a disk after a power loss at some instant of a history.
 *
 * The model relies only on fsync from POSIX, and on atomicity of single operations on names from
 * journaling file systems (ext4, xfs, btrfs):
 *
 *   1. What was fsynced is durable once the fsync has returned: for a file, bytes and size written
 *      before its fsync began; for a folder, names created, changed or removed before its fsync
 *      began. If several opened a file, an fsync covers only what its own opener wrote, as others
 *      may be on other machines. An fsync of a file does not cover its name, and one of a folder
 *      does not cover the files in it.
 *   2. Everything else that has begun takes effect or not, in any combination: there is no order
 *      between folders, files, names and bytes. However, operations on one name of a folder keep
 *      their order, and a rename or exchange takes effect as a whole or not at all.
 *   3. A write may be torn: each unit (of 512 or 4096 bytes) has its contents after some number of
 *      the writes that touch it. The size may be updated without the bytes, and the bytes without
 *      the size. Bytes within the size that were never written are zeros, or anything.
 *   4. A unit of 512 bytes is old or new. Durable data does not decay.
 *
 * So inode numbers, times, permissions and locations on disk are not modeled. File systems with
 * stricter ordering (ext4 with data=ordered commits names in order) allow only some of these
 * states.
 */
#ifndef MILLRACE_TESTS_CRASH_POWER_H
#define MILLRACE_TESTS_CRASH_POWER_H

#include "tests/crash/history.h"

/* Which of the non-durable operations take effect. */
enum power_kind {
    POWER_NONE,    /* none */
    POWER_ALL,     /* all: the state after a killed process */
    POWER_ALL_BUT, /* all but op and those that need it */
    POWER_ONLY,    /* op and those that it needs */
    POWER_SOME,    /* a random choice, from seed */
};

struct power_choice {
    enum power_kind kind;
    uint32_t op; /* its number in the history */
    uint64_t seed;
};

/* Whether the operation has begun by then, has an effect, and is not durable, so that choices apply
 * to it. */
bool power_is_open(const struct history_op *op, uint32_t instant);
/* Builds the tree of one state. The history must be closed. */
void power_state(const struct history *history, uint32_t instant, struct power_choice choice,
                 struct tree *ret_tree);

#endif
