/*
 * dataset_options — checks the converter's options and writes the JSON that dataset.json stores.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_OPTIONS_H
#define MILLRACE_CONVERT_DATASET_DATASET_OPTIONS_H

#include "convert/source/source.h"

/* -EINVAL naming the option. */
int options_check(const struct convert_options *options, struct err *err);
/* Writes the options that affect bytes: no paths, no threads. split: an index into splits, or -1
 * for the whole conversion. identity: of the conversion (journal_identity), so that --resume
 * recognizes the dataset; NULL leaves it out. */
void options_write_json(const struct source *source, int split, const uint64_t *identity,
                        struct str *out);

#endif
