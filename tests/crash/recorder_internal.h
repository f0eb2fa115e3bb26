/*
 * recorder_internal — internal interface of the recorder: recorder.c records and decides,
 * recorder_calls.c wraps the calls.
 *
 * A wrapper of a name operation has this form:
 *
 *     if (recorder_before_call(HALF_NONE) == CALL_FAILS) fail;
 *     recorder_lock();
 *     make the call, and if it succeeded record it;
 *     recorder_unlock();
 *
 * The lock makes the records follow the kernel's order. Writes and fsyncs run without the lock;
 * their beginning and end are recorded separately.
 */
#ifndef MILLRACE_TESTS_CRASH_RECORDER_INTERNAL_H
#define MILLRACE_TESTS_CRASH_RECORDER_INTERNAL_H

#include "tests/crash/recorder.h"

#include <sys/stat.h>

enum recorder_before_call { CALL_PROCEEDS, CALL_FAILS };

/* Counts a durable call, then calls the callback, kills the process or fails as requested. half
 * does half of a write; NULL: the call is not a write. */
enum recorder_before_call recorder_before_call(void (*half)(void *context), void *context);

void recorder_lock(void);
void recorder_unlock(void);
/* Call these with the lock held. */
bool recorder_is_on(void);
uint32_t recorder_find_node(const struct stat *info); /* TREE_NONE: not below the folder */
uint32_t recorder_find_parent(const char *path);      /* the node of path's parent folder */
uint32_t recorder_find_path(const char *path);
/* path was just created; records its name */
void recorder_new_node(const char *path, bool is_folder);
void recorder_add_name_op(enum history_kind kind, uint32_t folder, const char *name,
                          const char *other, uint32_t child);
/* HISTORY_NEVER if recording is off. */
uint32_t recorder_start(struct history_op op);
void recorder_finish(uint32_t op, uint64_t bytes); /* bytes: for a write, the number written */

/* These need no lock. */
bool recorder_has_bug(enum recorder_bug bug);
bool recorder_skips_syncs(void);
bool recorder_refuses_rename_flags(void);

#endif
