/*
 * lease — one owner a folder where the kernel's locks can't be trusted: shared storage, several
 * nodes. Internal to io/.
 *
 *     FOLDER/.millrace-lease/00000000000000000042      the highest number is the lease
 *
 * A number is taken by creating its file exclusively, which the server of shared storage decides,
 * not a cache of ours. The owner takes the next number each period (a heartbeat); who finds that
 * number taken has lost the lease. Who wants the lease watches by its own monotonic clock: a
 * highest number that moves has a living owner; one that stands still for LEASE_PERIODS_STILL
 * periods of its owner, or is marked free, or names a process of this kernel that is gone, may be
 * followed by the watcher's own. So no clocks are compared between machines, and a number is a
 * fencing token: lease_check takes the next one, and fails for an owner that slept while another
 * took over, whatever it believes.
 *
 * Invariants
 *   1. Only an exclusive create of highest + 1 moves the lease; the highest number's creator owns
 *      it.
 *   2. The LEASE_KEPT highest numbers stay, so that who looked a while ago does not create one that
 *      was there already; and who created one looks again and gives way to a higher one.
 *   3. The numbers never start again: a release leaves one that says "free".
 *   4. A heartbeat that failed may have made its number nevertheless. Its owner knows it by its
 *      token, and goes on behind it; so it does behind one that nobody could write yet, whose
 *      creator, if it is another, then sees a higher one and gives way.
 *
 * Threads: a lease has its own, which beats; check and release may come from any.
 */
#ifndef MILLRACE_IO_LEASE_H
#define MILLRACE_IO_LEASE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASE_FOLDER_NAME       ".millrace-lease"
#define LEASE_PERIOD_DEFAULT_NS (UINT64_C(5) * 1000000000)
#define LEASE_PERIOD_MAX_MS     UINT64_C(600000)

enum {
    LEASE_PERIODS_STILL = 6,
    LEASE_KEPT = 4,
    LEASE_TEXT_BYTES_MAX = 320,
    LEASE_HOST_BYTES = 65,
    LEASE_BOOT_BYTES = 40,
};

/* What a number's file says: one line, `millrace-lease 1 KEY=VALUE...`, keys in this order. */
struct lease_record {
    bool is_free;            /* state=free, state=held */
    uint64_t period_ms;      /* 1..LEASE_PERIOD_MAX_MS */
    uint64_t pid, pid_space; /* whose pids these are: the inode of /proc/self/ns/pid */
    uint64_t
        token; /* random, of one lease from its acquire to its release; 16 hexadecimal digits */
    char boot[LEASE_BOOT_BYTES], host[LEASE_HOST_BYTES];
};

/* -EBADMSG where it is none, also one that is not yet written as a whole. */
int lease_parse(const char *text, size_t bytes, struct lease_record *ret_record);
/* Returns the bytes in text, without the NUL. */
size_t lease_format(const struct lease_record *record, char text[LEASE_TEXT_BYTES_MAX]);

struct lease;

/* period_ns 0: the default. Blocks while a last owner is watched: a period where it lives,
 * LEASE_PERIODS_STILL where it may be dead. -EBUSY names the owner. */
int lease_acquire(const char *folder, uint64_t period_ns, struct lease **ret_lease,
                  struct err *err);
/* 0 where the lease is this one's still, and then for LEASE_PERIODS_STILL periods of the clock of
 * anybody else. -EBUSY names who took it; it is never got back. Other errors: it could not be asked
 * now. */
int lease_check(struct lease *lease, struct err *err);
void lease_release(struct lease *lease);
/* Whether leases were ever used in the folder. */
bool lease_is_used(const char *folder);

#endif
