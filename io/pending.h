/*
 * pending — paths that are to go if the program ends at once: from a signal's handler nothing else
 * can be asked what it was writing.
 *
 * Outputs of one file that nobody goes on with are noted by the backends for local files
 * themselves, under their temporary name and as long as they have it. The table is bounded; what
 * finds no room stays at such an end.
 */
#ifndef MILLRACE_IO_PENDING_H
#define MILLRACE_IO_PENDING_H

enum { IO_PENDING_MAX = 64 };

/* Notes the path of a file, or of a folder that is empty once all other noted paths are gone. To be
 * called before it is made; the path is copied. Returns what io_pending_drop takes: -1 where there
 * is no room, or it is not a local path. From any thread. */
int io_pending_add(const char *path);
/* To be called when the path is gone, or stays. -1 is fine. */
void io_pending_drop(int number);

/* Removes all that is noted. Async-signal-safe; the program ends next. A thread that begins another
 * output meanwhile waits for that. */
void io_pending_remove(void);

#endif
