/*
 * page_dataset — the page of a dataset or shard: a contact sheet or text, sizes, classes, fields,
 * shards and conversion options. Reading the samples (survey.h) takes seconds.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_DATASET_H
#define MILLRACE_CLI_REPORT_PAGE_DATASET_H

#include "base/err.h"
#include "base/str.h"
#include "io/io.h"
#include "loader/loader.h"

#include <stdbool.h>

struct page_dataset_options {
    const char *path; /* dataset.json or its folder, or a shard if is_shard */
    bool is_shard;
    /* Shows these fields of samples drawn at random, and what follows an image over it, instead of
     * the contact sheet. */
    const struct loader_field *fields;
    uint32_t fields_count;
    const struct log *log; /* names samples whose fields cannot be decoded */
};

/* Appends to out. Reproducible. -EINVAL: the dataset does not have such fields. */
int page_dataset_build(struct io *io, const struct page_dataset_options *options, struct str *out,
                       struct err *err);

#endif
