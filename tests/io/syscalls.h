/*
 * syscalls — the system calls of io/, seen, failed, shortened, held up or made the last one on
 * purpose.
 *
 * By the linker's --wrap: every call from our object files passes through here. Durable calls are
 * those that change what is on disk: mkdir create fallocate pwrite ftruncate fsync rename renameat2
 * link unlink unlinkat rmdir.
 *
 * Reads and writes that are put into a ring of io_uring are seen, failed, shortened and held as
 * they are handed to the kernel, under the same names, pread and pwrite.
 */
#ifndef MILLRACE_TESTS_IO_SYSCALLS_H
#define MILLRACE_TESTS_IO_SYSCALLS_H

#include <stdbool.h>

/* Nothing is recorded, failed, shortened, held up or killed any more. */
void syscalls_reset(void);

/* From now on durable calls are written down, one a line: "fsync out/a". Paths are relative to
 * folder, and random parts of temporary names are written as NONCE. */
void syscalls_record(const char *folder);
const char *syscalls_recorded(void);

/* The process dies by SIGKILL instead of making its n-th durable call from now on (1 is the
 * next). */
void syscalls_kill_at(unsigned n);

/* The nth call of that name from now on (0: each) fails with code (-errno). */
void syscalls_fail(const char *name, unsigned nth, int code);
unsigned syscalls_failed_count(void);

/* Renames with flags are refused with EINVAL, as by a file system that has none; syscalls_fail is
 * free for another call. */
void syscalls_refuse_rename_flags(void);

/* pread and pwrite move a few bytes at once, or fail with EINTR and EAGAIN. */
void syscalls_shorten(void);

/* Failing and shortening need a kernel that lets a ring's entry fail on request, as Linux 6.10
 * does. */
bool syscalls_can_fail_rings(void);

/* pread waits until it is let go; how many wait there now. */
void syscalls_hold_reads(bool hold);
unsigned syscalls_held_count(void);

/* Rings can't be waited for. */
void syscalls_break_rings(void);

/* Whether the kernel cancels what is in progress in such a ring, as Linux 6.0 does. */
bool syscalls_can_cancel_in_rings(void);

/* Called whenever a ring is about to be closed. */
void syscalls_at_ring_exit(void (*call)(void));

/* How many reads and writes of rings were of registered memory. */
unsigned syscalls_fixed_count(void);

/* How many threads have called pread since the reset. */
unsigned syscalls_reader_count(void);

#endif
