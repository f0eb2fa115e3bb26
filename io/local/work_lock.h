/*
 * work_lock — lets one process at a time do work that benefits all of them while the others wait.
 *
 * A turn is an exclusive lock on a file that exists only during the turn. The kernel releases the
 * lock when its holder dies: an unlocked file means that a process died during the work; no file
 * means that the work is done or never began. Turns work between processes and between threads.
 *
 * Local files only. If the file cannot be created or locked (a read-only file system, NFS without
 * locks), every process gets a turn immediately: turns save work, they do not protect data.
 */
#ifndef MILLRACE_IO_LOCAL_WORK_LOCK_H
#define MILLRACE_IO_LOCAL_WORK_LOCK_H

#include <stdbool.h>

struct io_work_lock;

/* Never waits. 0: the caller has the turn until io_work_lock_release; *ret_turn is NULL if the file
 * system does not support turns. -EBUSY: another process has it. -ENOENT, only if has_waited: the
 * previous holder has ended. The caller takes over the turn of a holder that died. */
int io_work_lock_acquire(const char *path, bool has_waited, struct io_work_lock **ret_turn);
void io_work_lock_release(struct io_work_lock *turn); /* NULL is fine */

#endif
