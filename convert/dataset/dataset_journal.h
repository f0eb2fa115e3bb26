/*
 * dataset_journal — records complete shards, so that a killed conversion can resume.
 *
 * The first line of TARGET/.millrace-convert.jsonl is {"millrace_convert":3,"identity":"16
 * hex","splits":["train",...]}; each complete shard adds a line (struct output_shard, and the field
 * names of its split up to then). The file is rewritten durably after each shard, and removed once
 * dataset.json exists. Shards missing from the journal are written again, with the same bytes.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_JOURNAL_H
#define MILLRACE_CONVERT_DATASET_DATASET_JOURNAL_H

#include "convert/dataset/dataset_output.h"

#define JOURNAL_FILE_NAME ".millrace-convert.jsonl"

/* Hashes the input's files, the options that affect bytes, and this program's version. */
int journal_identity(const struct source *source, uint64_t *ret_identity, struct err *err);
int journal_write(struct io *io, const char *target, uint64_t identity,
                  const struct output *outputs, uint32_t count, struct err *err);
/* Restores the outputs. -ESTALE: the input or the options differ; -EBADMSG: damaged, or a listed
 * shard is missing. */
int journal_load(struct io *io, const char *target, uint64_t identity, struct output *outputs,
                 uint32_t count, struct err *err);
/* Reads the splits' names; none if the journal is missing or damaged. */
int journal_read_splits(struct io *io, const char *target,
                        struct convert_split splits[CONVERT_SPLITS_MAX], uint32_t *ret_count,
                        struct err *err);

#endif
