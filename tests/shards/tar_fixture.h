/*
 * tar_fixture — writes plain tars and lists their samples and cached indexes.
 */
#ifndef MILLRACE_TESTS_SHARDS_TAR_FIXTURE_H
#define MILLRACE_TESTS_SHARDS_TAR_FIXTURE_H

#include "shards/format/index_cache.h"
#include "shards/format/shard.h"
#include "tests/shards/fixture.h"

#include <time.h>

/* Like fixture_set_up for "a.tar", with a new index cache in the folder. */
int tar_fixture_set_up(void **state);
/* Writes a tar of members "name" or "name=size", filled with repetitions of their names. */
void tar_fixture_write(const struct fixture *fixture, const char *const *members);
/* Sets the tar's modification time, so that tests need not wait for the clock. */
void tar_fixture_set_mtime(const struct fixture *fixture, time_t when);
/* Lists the samples of an open shard as "key:ext,ext key:ext". */
void tar_fixture_list_samples(const struct shard *shard, char *text, size_t bytes);
/* Returns the status of index_cache_load. */
int tar_fixture_load_index(const struct fixture *fixture, bool accept_partial,
                           struct plain_tar_index *ret_index);
bool tar_fixture_has_index(const struct fixture *fixture, struct plain_tar_index *ret_index);

#endif
