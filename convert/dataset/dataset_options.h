/*
 * dataset_options — checks the converter's options, and writes them as JSON.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_OPTIONS_H
#define MILLRACE_CONVERT_DATASET_DATASET_OPTIONS_H

#include "convert/source/source.h"

/* -EINVAL names the option. */
int options_check(const struct convert_options *options, struct err *err);
/* -ENOTSUP: the source is text, which has no other format than shards. */
int options_check_source(const struct convert_options *options, const struct source_ops *ops,
                         struct err *err);
/* Writes the options that affect bytes. split: an index into splits, or -1 for the whole
 * conversion. identity: from journal_identity, so that --resume recognizes the dataset; may be
 * NULL. */
void options_write_json(const struct source *source, int split, const uint64_t *identity,
                        struct str *out);

#endif
