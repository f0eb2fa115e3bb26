/*
 * url_list — expands WebDataset brace patterns into shard lists.
 *
 *     a.tar::b.tar                  alternatives in this order
 *     ${DATA}/train.tar             the environment variable WDS_DATA
 *     train-{000000..000999}.tar    numbers, zero-padded if an end is; {9..1}, {0..8..2}
 *     {train,val}/{a..c}.tar        words, letters; groups multiply and may nest
 *
 * "::" is expanded first, then variables, then braces. Braces without a comma or range are kept.
 */
#ifndef MILLRACE_SHARDS_DATASET_URL_LIST_H
#define MILLRACE_SHARDS_DATASET_URL_LIST_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialize. urls and the strings are malloc'ed. Use from one thread only. */
struct url_list {
    char **urls;
    size_t count, capacity;
};

/* Whether url_list_expand would change the text. */
bool url_list_is_pattern(const char *text);
/* Appends the expansion of text: up to DATASET_SHARDS_MAX strings, each shorter than
 * IO_PATH_BYTES_MAX. -EINVAL with detail: unset variable, too many or too long strings, deep
 * nesting; -ENOMEM. */
int url_list_expand(struct url_list *list, const char *text, struct err *err);
/* Appends url unexpanded. */
int url_list_add(struct url_list *list, const char *url, struct err *err);
void url_list_deinit(struct url_list *list);

#endif
