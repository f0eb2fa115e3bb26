/*
 * recorder — the lowest seam: every call of this process that changes what is on disk, seen as it
 * is made.
 *
 * By the linker's --wrap (CMakeLists.txt): all calls from our object files pass here, those of the
 * tree and of requests to an engine (file_transfer.h) alike, so the code under test is the one that
 * is shipped. A **durable call** is one of open (that creates), mkdir, fallocate, pwrite (or a
 * ring's write), ftruncate, fsync, rename, renameat2, link, unlink, unlinkat, rmdir; they are
 * counted.
 *
 *     recorder_begin(&history, "/some/folder");     // writes them down, from here
 *     ... save ...
 *     recorder_end();  // the history is closed, and recorder_check tells whether it is complete
 *
 * Threads: any may make calls; the functions below are called while nobody does, but for those that
 * say otherwise.
 */
#ifndef MILLRACE_TESTS_CRASH_RECORDER_H
#define MILLRACE_TESTS_CRASH_RECORDER_H

#include "tests/crash/history.h"

#include <stdatomic.h>

void recorder_begin(struct history *history, const char *folder);
void recorder_end(void);
/* What the history ends with is what the real folder holds: nothing went past the recorder. */
bool recorder_is_complete(const struct history *history, const char *folder);
/* Writes a note down. By any thread. */
void recorder_note(uint32_t number);

/* Durable calls are counted there from now on, from zero; it may be memory that processes share.
 * NULL: nowhere. */
void recorder_count_in(atomic_uint *count);
/* Instead of its n-th durable call the process dies by SIGKILL; in_the_middle: where it is a write,
 * after half of it. 0: never. */
void recorder_kill_at(unsigned n, bool in_the_middle);
/* Instead of the n-th durable call and ever after nothing is done, and every call fails with EIO: a
 * death that leaves this process, and the recording, alive. 0: back to life. */
void recorder_die_at(unsigned n);
/* The same at the call that follows the next operation of that kind on names: between it and what
 * would make it durable. */
void recorder_die_after(enum history_kind kind);
/* Before each durable call, with its number, in the thread that makes it; calls that it makes
 * itself are not counted. NULL: no. */
void recorder_at_each(void (*look)(void *context, unsigned n), void *context);
/* fsync returns at once: what only looks at folders has no need of it. */
void recorder_skip_syncs(bool skip);

/* Bugs, as if the code under test had them. */
enum recorder_bug {
    BUG_NONE,
    BUG_DATA_NOT_SYNCED,     /* no fsync of files but the manifest */
    BUG_MANIFEST_NOT_SYNCED, /* no fsync of the manifest */
    BUG_PLACE_NOT_SYNCED,    /* no fsync of temporary folders, in which the files are */
    BUG_FOLDER_NOT_SYNCED,   /* no fsync of the folder of steps */
    BUG_RENAME_EARLY,        /* the manifest's fsync comes after the rename that commits */
    BUG_COMMON_NOT_SYNCED,   /* of the file that all ranks write, no fsync of every second rank */
    BUG_NO_LOCK,             /* locks are given to everybody */
    BUG_COUNT
};
void recorder_seed_bug(enum recorder_bug bug);
/* renameat2 refuses its flags, as on file systems that have none. */
void recorder_refuse_rename_flags(bool refuse);

#endif
