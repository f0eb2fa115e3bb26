/*
 * dataset_journal — which shards of a conversion are whole, so that it can go on after any death.
 *
 * TARGET/.millrace-convert.jsonl: the first line {"millrace_convert":3,"identity":"16
 * hex","splits":["train",...]}, then a line a whole shard (struct output_shard, with the names of
 * its split's fields so far). It is rewritten whole and durably after each shard and removed when
 * dataset.json stands. A shard that was committed but not yet written down is made again, with the
 * same bytes.
 */
#ifndef MILLRACE_CONVERT_DATASET_JOURNAL_H
#define MILLRACE_CONVERT_DATASET_JOURNAL_H

#include "convert/dataset_output.h"

#define JOURNAL_FILE_NAME ".millrace-convert.jsonl"

/* Of the input's files, the options that decide about bytes, and this program's version. */
int journal_identity(const struct source *source, uint64_t *ret_identity, struct err *err);
int journal_write(struct io *io, const char *target, uint64_t identity,
                  const struct output *outputs, uint32_t count, struct err *err);
/* Restores the outputs. -ESTALE where the journal is of another input or other options; -EBADMSG;
 * the shards it names must be there. */
int journal_load(struct io *io, const char *target, uint64_t identity, struct output *outputs,
                 uint32_t count, struct err *err);
/* The names of the splits that the target's journal is of; none where there is no journal, or a
 * damaged one. */
int journal_read_splits(struct io *io, const char *target,
                        struct convert_split splits[CONVERT_SPLITS_MAX], uint32_t *ret_count,
                        struct err *err);

#endif
