/*
 * dataset_journal — records a conversion's complete shards, so that it can resume after being
 * killed.
 *
 * TARGET/.millrace-convert.jsonl: the first line is {"millrace_convert":3,"identity":"16
 * hex","splits":["train",...]}, then one line per complete shard (struct output_shard, with the
 * names of its split's fields so far). It is durably rewritten after each shard and removed once
 * dataset.json exists. A shard that was committed but not recorded is made again, with the same
 * bytes.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_JOURNAL_H
#define MILLRACE_CONVERT_DATASET_DATASET_JOURNAL_H

#include "convert/dataset/dataset_output.h"

#define JOURNAL_FILE_NAME ".millrace-convert.jsonl"

/* Hash of the input's files, the options that affect bytes, and this program's version. */
int journal_identity(const struct source *source, uint64_t *ret_identity, struct err *err);
int journal_write(struct io *io, const char *target, uint64_t identity,
                  const struct output *outputs, uint32_t count, struct err *err);
/* Restores the outputs. -ESTALE: the journal belongs to another input or other options; -EBADMSG:
 * damaged, or a shard that it names is missing. */
int journal_load(struct io *io, const char *target, uint64_t identity, struct output *outputs,
                 uint32_t count, struct err *err);
/* The names of the splits in the target's journal; none if there is no journal or it is damaged. */
int journal_read_splits(struct io *io, const char *target,
                        struct convert_split splits[CONVERT_SPLITS_MAX], uint32_t *ret_count,
                        struct err *err);

#endif
