/*
 * temporary_registry — temporary paths that a signal handler removes if the program ends at once.
 *
 * Local backends register single-file outputs that nobody may resume, for as long as these have
 * their temporary name. The table is bounded: paths that do not fit are left behind.
 */
#ifndef MILLRACE_IO_FILES_TEMPORARY_REGISTRY_H
#define MILLRACE_IO_FILES_TEMPORARY_REGISTRY_H

enum { IO_TEMPORARY_REGISTRY_MAX = 64 };

/* Registers the path of a file, or of a folder that is empty once all other registered paths are
 * removed. Call it before the path is created; the path is copied. Returns the argument of
 * io_temporary_unregister: -1 if the table is full or the path is not local. From any thread. */
int io_temporary_register(const char *path);
/* Call it when the path is gone or is to stay. -1 is fine. */
void io_temporary_unregister(int number);

/* Removes all registered paths. Async-signal-safe; the program must then end. Threads that register
 * another path meanwhile block for good. */
void io_temporary_remove_all(void);

#endif
