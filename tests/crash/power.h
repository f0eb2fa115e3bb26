/*
 * power — the possible contents of a disk after a power loss at some instant of a history.
 *
 * The model relies only on POSIX fsync, and on journaling file systems (ext4, xfs, btrfs) making
 * each operation on names atomic:
 *
 *   1. What an fsync covers is durable once the fsync has returned: for a file, the bytes and size
 *      written before the fsync began; for a folder, the names created, changed or removed before
 *      the fsync began. If a file was opened several times, an fsync covers only what was written
 *      through the same open call, because the others may be on other machines. An fsync of a file
 *      does not cover its name, and an fsync of a folder does not cover the files in it.
 *   2. Everything else that has begun takes effect or not, in any combination: folders, files,
 *      names and bytes are not ordered relative to each other. However, operations on one name of a
 *      folder keep their order, and a rename or exchange takes effect as a whole or not at all.
 *   3. A write may be torn: each unit (512 or 4096 bytes) holds the result of some number of the
 *      first writes that touch it. The size may be updated without the bytes, and the bytes without
 *      the size. Bytes within the size that were never written are zeros or garbage.
 *   4. A unit of 512 bytes is either old or new. Durable data does not decay.
 *
 * Inode numbers, times, permissions and locations on disk are not modeled. File systems with
 * stricter ordering (ext4 with data=ordered commits names in order) allow only some of these
 * states.
 */
#ifndef MILLRACE_TESTS_CRASH_POWER_H
#define MILLRACE_TESTS_CRASH_POWER_H

#include "tests/crash/history.h"

/* Which of the operations that are not durable take effect. */
enum power_kind {
    POWER_NONE,    /* none */
    POWER_ALL,     /* all: the state after a process is killed */
    POWER_ALL_BUT, /* all but op and those that depend on it */
    POWER_ONLY,    /* only op and those that it depends on */
    POWER_SOME,    /* a random choice, from seed */
};

struct power_choice {
    enum power_kind kind;
    uint32_t op; /* number of the operation in the history */
    uint64_t seed;
};

/* Whether the operation has begun by that instant and has an effect that is not yet durable. */
bool power_is_pending(const struct history_op *op, uint32_t instant);
/* Builds the tree for one state. The history must be closed. */
void power_state(const struct history *history, uint32_t instant, struct power_choice choice,
                 struct tree *ret_tree);

#endif
