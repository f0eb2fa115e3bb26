/*
 * turn — one process at a time does a piece of work whose result all of them can use, and the
 * others wait for it.
 *
 * A turn is an exclusive lock on a file that exists only while somebody has the turn. The kernel
 * releases the lock at any death of its holder. So a file that nobody has locked was left by a
 * process that died at its work, and no file means that the work ended or was never begun. It works
 * between unrelated processes and between threads of one.
 *
 * Local files only. Where the file can not be created or locked (a read-only file system, NFS
 * without locks), everybody has a turn at once: turns spare work and guard nothing.
 */
#ifndef MILLRACE_IO_TURN_H
#define MILLRACE_IO_TURN_H

#include <stdbool.h>

struct io_turn;

/* Never waits. 0: the caller has the turn, until io_turn_end; *ret_turn is NULL where turns do not
 * work here. -EBUSY: another one has it. -ENOENT, where has_waited: the one that had it has ended;
 * a turn that its holder's death left is taken over instead. */
int io_turn_begin(const char *path, bool has_waited, struct io_turn **ret_turn);
void io_turn_end(struct io_turn *turn); /* NULL is fine */

#endif
