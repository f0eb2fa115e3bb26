/*
 * url_list — expands a WebDataset brace pattern into a list of shards.
 *
 *     a.tar::b.tar                  alternatives, one after the other
 *     ${DATA}/train.tar             the environment variable WDS_DATA
 *     train-{000000..000999}.tar    numbers, zero-padded if an end is; {9..1}, {0..8..2}
 *     {train,val}/{a..c}.tar        words, letters; groups multiply and may nest
 *
 * Expansion order: "::", then variables, then braces. Braces that contain neither a comma nor a
 * range stay as they are.
 */
#ifndef MILLRACE_SHARDS_DATASET_URL_LIST_H
#define MILLRACE_SHARDS_DATASET_URL_LIST_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Zeroed is empty. urls and the strings are allocated by malloc. Owner thread. */
struct url_list {
    char **urls;
    size_t count, capacity;
};

/* Whether there is anything to expand. */
bool url_list_is_pattern(const char *text);
/* Appends the expansion of text. At most DATASET_SHARDS_MAX in total, each shorter than
 * IO_PATH_BYTES_MAX. -EINVAL with detail: a variable is not set, too many or too long, nested too
 * deep; -ENOMEM. */
int url_list_expand(struct url_list *list, const char *text, struct err *err);
/* Appends url unexpanded. */
int url_list_add(struct url_list *list, const char *url, struct err *err);
void url_list_deinit(struct url_list *list);

#endif
