/*
 * syscalls — records, fails, shortens or holds io/'s system calls, or kills the process at one of
 * them.
 *
 * Uses the linker's --wrap: every call from our object files passes through here. Durable calls
 * change what is on disk: mkdir create fallocate pwrite ftruncate fsync rename renameat2 link
 * unlink unlinkat rmdir.
 *
 * Reads and writes submitted to an io_uring ring are recorded, failed, shortened and held at
 * submission, under the same names, pread and pwrite.
 */
#ifndef MILLRACE_TESTS_IO_SYSCALLS_H
#define MILLRACE_TESTS_IO_SYSCALLS_H

#include <stdbool.h>

/* Ends recording, failing, shortening, holding and killing. */
void syscalls_reset(void);

/* Records durable calls from now on, one per line: "fsync out/a". Paths are relative to folder;
 * random parts of temporary names are recorded as NONCE. */
void syscalls_record(const char *folder);
const char *syscalls_recorded(void);

/* Kills the process with SIGKILL in place of its n-th durable call from now on (1 is the next). */
void syscalls_kill_at(unsigned n);

/* Makes the nth call with that name from now on (0: every call) fail with code (-errno). */
void syscalls_fail(const char *name, unsigned nth, int code);
unsigned syscalls_failed_count(void);

/* Makes renames with flags fail with EINVAL, as on a file system without support for them.
 * Independent of syscalls_fail. */
void syscalls_refuse_rename_flags(void);

/* Makes pread and pwrite transfer a few bytes at a time, or fail with EINTR and EAGAIN. */
void syscalls_shorten(void);

/* Whether ring operations can be failed and shortened, which needs kernel support (Linux 6.10). */
bool syscalls_can_fail_rings(void);

/* Holds pread calls, or releases them; the second function returns the number held now. */
void syscalls_hold_reads(bool hold);
unsigned syscalls_held_count(void);

/* Makes waits for ring completions fail. */
void syscalls_break_rings(void);

/* Whether the kernel can cancel ring operations in progress (Linux 6.0). */
bool syscalls_can_cancel_in_rings(void);

/* Sets a function to call whenever a ring is about to be closed. */
void syscalls_at_ring_exit(void (*call)(void));

/* The number of ring reads and writes that used registered memory. */
unsigned syscalls_fixed_count(void);

/* The number of threads that have called pread since the reset. */
unsigned syscalls_reader_count(void);

#endif
