/*
 * temporary_registry — paths that are to go if the program ends at once: from a signal's handler
 * nothing else can be asked what it was writing.
 *
 * Outputs of one file that nobody goes on with are noted by the backends for local files
 * themselves, under their temporary name and as long as they have it. The table is bounded; what
 * finds no room stays at such an end.
 */
#ifndef MILLRACE_IO_TEMPORARY_REGISTRY_H
#define MILLRACE_IO_TEMPORARY_REGISTRY_H

enum { IO_TEMPORARY_REGISTRY_MAX = 64 };

/* Notes the path of a file, or of a folder that is empty once all other noted paths are gone. To be
 * called before it is made; the path is copied. Returns what io_temporary_unregister takes: -1
 * where there is no room, or it is not a local path. From any thread. */
int io_temporary_register(const char *path);
/* To be called when the path is gone, or stays. -1 is fine. */
void io_temporary_unregister(int number);

/* Removes all that is noted. Async-signal-safe; the program ends next. A thread that begins another
 * output meanwhile waits for that. */
void io_temporary_remove_all(void);

#endif
