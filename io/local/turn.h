/*
 * turn — lets one process at a time do work whose result all can use, while the others wait.
 *
 * A turn is an exclusive lock on a file that exists only during the turn. The kernel releases the
 * lock when its holder dies. So an unlocked file was left by a process that died at work, and no
 * file means that the work is done or never began. Turns work between unrelated processes and
 * between threads of one.
 *
 * Local files only. If the file can't be created or locked (a read-only file system, NFS without
 * locks), everybody gets a turn at once: turns save work, they do not protect data.
 */
#ifndef MILLRACE_IO_LOCAL_TURN_H
#define MILLRACE_IO_LOCAL_TURN_H

#include <stdbool.h>

struct io_turn;

/* Never waits. 0: the caller has the turn until io_turn_end; *ret_turn is NULL where turns do not
 * work. -EBUSY: another one has it. -ENOENT, only if has_waited: the previous holder has ended. A
 * turn whose holder died is taken over instead. */
int io_turn_begin(const char *path, bool has_waited, struct io_turn **ret_turn);
void io_turn_end(struct io_turn *turn); /* NULL is fine */

#endif
