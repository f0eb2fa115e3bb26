/*
 * recorder_inside — what the recorder's two halves share: recorder.c writes down and decides,
 * recorder_calls.c stands in for the calls.
 *
 * A stand-in for a call on names is
 *
 *     if (recorder_turn(HALF_NONE) == TURN_FAIL) fail;
 *     recorder_lock();
 *     make the call, and if it succeeded write it down;
 *     recorder_unlock();
 *
 * so that such calls are written down in the order in which the kernel made them. Writes and fsyncs
 * are made without the lock, between two that write down begin and end.
 */
#ifndef MILLRACE_TESTS_CRASH_RECORDER_INSIDE_H
#define MILLRACE_TESTS_CRASH_RECORDER_INSIDE_H

#include "tests/crash/recorder.h"

#include <sys/stat.h>

enum recorder_turn { TURN_GO, TURN_FAIL };

/* A durable call is due: counts it, and looks, kills or fails where that was asked for. half does
 * half of a write; NULL: it is none. */
enum recorder_turn recorder_turn(void (*half)(void *context), void *context);

void recorder_lock(void);
void recorder_unlock(void);
/* All of these with the lock held. */
bool recorder_is_on(void);
uint32_t recorder_node_of(const struct stat *info); /* TREE_NONE: it is not below the folder */
uint32_t recorder_folder_of(const char *path);      /* that holds what path names */
uint32_t recorder_node_at(const char *path);
void recorder_new_node(const char *path, bool is_folder); /* just made; writes its name down */
void recorder_add_name_op(enum history_kind kind, uint32_t folder, const char *name,
                          const char *other, uint32_t child);
/* HISTORY_NEVER where nothing is recorded. */
uint32_t recorder_start(struct history_op op);
void recorder_finish(uint32_t op, uint64_t bytes); /* bytes: of a write, those that were moved */

/* May be asked without the lock. */
bool recorder_has_bug(enum recorder_bug bug);
bool recorder_skips_syncs(void);
bool recorder_refuses_rename_flags(void);

#endif
