/*
 * recorder — intercepts every call by this process that changes what is on disk.
 *
 * Calls from our object files are redirected here by the linker's --wrap (CMakeLists.txt),
 * including the transfers that an I/O engine makes (file_transfer.h). So the code under test is the
 * code that is shipped. A **durable call** is one of open (that creates), mkdir, fallocate, pwrite
 * (or a ring's write), ftruncate, fsync, rename, renameat2, link, unlink, unlinkat, rmdir; they are
 * counted.
 *
 *     recorder_begin(&history, "/some/folder");     // starts recording
 *     ... save ...
 *     recorder_end();  // closes the history; recorder_is_complete checks it
 *
 * Calls may come from any thread. The functions below must not run concurrently with calls, unless
 * noted.
 */
#ifndef MILLRACE_TESTS_CRASH_RECORDER_H
#define MILLRACE_TESTS_CRASH_RECORDER_H

#include "tests/crash/history.h"

#include <stdatomic.h>

void recorder_begin(struct history *history, const char *folder);
void recorder_end(void);
/* Whether the history ends with the contents of the real folder, which shows that nothing bypassed
 * the recorder. */
bool recorder_is_complete(const struct history *history, const char *folder);
/* Records a note. May be called from any thread. */
void recorder_note(uint32_t number);

/* Sets *count, which may be in shared memory, to zero and counts durable calls in it from now on.
 * NULL: stops counting. */
void recorder_count_calls_in(atomic_uint *count);
/* Kills the process with SIGKILL instead of making its n-th durable call; if in_the_middle and that
 * call is a write, after half of the write. 0: never. */
void recorder_kill_at(unsigned n, bool in_the_middle);
/* From the n-th durable call on, every call does nothing and fails with EIO: a simulated death that
 * leaves this process and the recording alive. 0: calls work again. */
void recorder_die_at(unsigned n);
/* Like recorder_die_at, but at the call after the next name operation of that kind, before an fsync
 * makes it durable. */
void recorder_die_after(enum history_kind kind);
/* Sets a function to call before each durable call, with the call's number, in the calling thread.
 * Calls made by the function are not counted. NULL: none. */
void recorder_set_callback(void (*callback)(void *context, unsigned n), void *context);
/* Makes fsync do nothing; for code that only reads folders. */
void recorder_skip_syncs(bool skip);

/* Bugs to simulate in the code under test. */
enum recorder_bug {
    BUG_NONE,
    BUG_DATA_NOT_SYNCED,        /* no fsync of files except the manifest */
    BUG_MANIFEST_NOT_SYNCED,    /* no fsync of the manifest */
    BUG_STAGING_NOT_SYNCED,     /* no fsync of the temporary folders that contain the files */
    BUG_FOLDER_NOT_SYNCED,      /* no fsync of the folder of steps */
    BUG_RENAME_EARLY,           /* the manifest's fsync follows the rename that commits */
    BUG_SHARED_FILE_NOT_SYNCED, /* every second rank omits the fsync of the shared file */
    BUG_NO_LOCK,                /* every lock is granted */
    BUG_COUNT
};
void recorder_seed_bug(enum recorder_bug bug);
/* Makes renameat2 reject its flags, as on file systems that do not support them. */
void recorder_refuse_rename_flags(bool refuse);

#endif
