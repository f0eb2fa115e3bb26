/*
 * work_lock — lets one process at a time do work that benefits all of them while the others wait.
 *
 * The holder locks a file that exists only while it works. The kernel releases the lock when its
 * holder dies: an unlocked file means that a process died during the work; no file means that the
 * work is done or never began. Also works between threads.
 *
 * Local files only. If the file cannot be created or locked (a read-only file system, NFS without
 * locks), every process may work immediately: the lock saves work, it does not protect data.
 */
#ifndef MILLRACE_IO_LOCAL_WORK_LOCK_H
#define MILLRACE_IO_LOCAL_WORK_LOCK_H

#include <stdbool.h>

struct io_work_lock;

/* Never waits. 0: the caller should do the work; *ret_lock is NULL if the file system does not
 * support the lock. -EBUSY: another process holds it. -ENOENT, only if has_waited: the previous
 * holder has finished. The caller takes over the lock of a holder that died. */
int io_work_lock_acquire(const char *path, bool has_waited, struct io_work_lock **ret_lock);
void io_work_lock_release(struct io_work_lock *lock); /* NULL is fine */

#endif
