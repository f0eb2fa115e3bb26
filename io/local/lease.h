/*
 * lease — one owner per folder on shared storage, where kernel locks are unreliable. Internal to
 * io/.
 *
 *     FOLDER/.millrace-lease/00000000000000000042      the highest number is the lease
 *
 * A process takes a number by creating its file exclusively; the storage server arbitrates. The
 * owner takes the next number each period (a heartbeat); if that number is taken, it has lost the
 * lease. A contender may take the next number if the highest one is marked free, names a process
 * that no longer exists on the contender's kernel, or has stayed the highest for
 * LEASE_EXPIRY_PERIODS periods of its owner, measured on the contender's monotonic clock. A number
 * is a fencing token: lease_check takes the next one, and fails for an owner that was suspended
 * while another took over.
 *
 * Invariants
 *   1. Only an exclusive create of highest + 1 transfers the lease; the creator of the highest
 *      number owns it.
 *   2. The LEASE_KEPT highest numbers stay, so that a contender with an old listing does not create
 *      a number that existed before. A creator lists again and yields to a higher number.
 *   3. The numbers never start over: a release leaves one that is marked free.
 *   4. A failed heartbeat may have created its number. The owner continues after a number that has
 *      its token or no contents; if another process created the empty one, the owner later sees a
 *      higher number and yields.
 *
 * Threads: a lease has a heartbeat thread; any thread may call check and release.
 */
#ifndef MILLRACE_IO_LOCAL_LEASE_H
#define MILLRACE_IO_LOCAL_LEASE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASE_FOLDER_NAME       ".millrace-lease"
#define LEASE_PERIOD_DEFAULT_NS (UINT64_C(5) * 1000000000)
#define LEASE_PERIOD_MAX_MS     UINT64_C(600000)

enum {
    LEASE_EXPIRY_PERIODS = 6,
    LEASE_KEPT = 4,
    LEASE_TEXT_BYTES_MAX = 320,
    LEASE_HOST_BYTES = 65,
    LEASE_BOOT_BYTES = 40,
};

/* A number's file: one line, `millrace-lease 1 KEY=VALUE...`, in this order. */
struct lease_record {
    bool is_free;            /* state=free, state=held */
    uint64_t period_ms;      /* 1..LEASE_PERIOD_MAX_MS */
    uint64_t pid, pid_space; /* pid_space: inode of /proc/self/ns/pid */
    /* Random, constant from acquire to release; 16 hexadecimal digits. */
    uint64_t token;
    char boot[LEASE_BOOT_BYTES], host[LEASE_HOST_BYTES];
};

/* -EBADMSG: not a record, or a partly written one. */
int lease_parse(const char *text, size_t bytes, struct lease_record *ret_record);
/* Returns the length of text without the NUL. */
size_t lease_format(const struct lease_record *record, char text[LEASE_TEXT_BYTES_MAX]);

struct lease;

/* period_ns 0: the default. Blocks while it watches the previous owner: for one period if that
 * owner is alive, for LEASE_EXPIRY_PERIODS periods if it may be dead. -EBUSY names the owner. */
int lease_acquire(const char *folder, uint64_t period_ns, struct lease **ret_lease,
                  struct err *err);
/* Returns 0 if the lease is held; it stays held for LEASE_EXPIRY_PERIODS periods on any contender's
 * clock. -EBUSY is permanent and names the new owner; after other errors the state is unknown. */
int lease_check(struct lease *lease, struct err *err);
void lease_release(struct lease *lease);
/* Whether the folder has ever had a lease. */
bool lease_was_used(const char *folder);

#endif
