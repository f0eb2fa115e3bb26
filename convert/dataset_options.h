/*
 * dataset_options — the converter's options: checked, and as the JSON that dataset.json keeps.
 */
#ifndef MILLRACE_CONVERT_DATASET_OPTIONS_H
#define MILLRACE_CONVERT_DATASET_OPTIONS_H

#include "convert/source.h"

/* -EINVAL naming the option. */
int options_check(const struct convert_options *options, struct err *err);
/* What of the options decides about bytes: no paths, no threads. split: one of splits, or -1 for
 * the conversion as a whole. identity: of the conversion (journal_identity), for a dataset that
 * --resume is to know again; NULL leaves it out. */
void options_write_json(const struct source *source, int split, const uint64_t *identity,
                        struct str *out);

#endif
