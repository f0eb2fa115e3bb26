/*
 * url_list — several shards in one text, as WebDataset writes it.
 *
 *     a.tar::b.tar                  alternatives, one after the other
 *     ${DATA}/train.tar             the environment variable WDS_DATA
 *     train-{000000..000999}.tar    numbers, with leading zeros where one end has them; {9..1},
 *                                   {0..8..2}
 *     {train,val}/{a..c}.tar        words, letters; groups multiply, and may stand within one
 *                                   another
 *
 * In this order: "::", then variables, then braces. Braces that hold neither a comma nor a range
 * stay as they are.
 */
#ifndef MILLRACE_SHARDS_URL_LIST_H
#define MILLRACE_SHARDS_URL_LIST_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Zero is empty. urls and what they point to are malloc's. Owner thread. */
struct url_list {
    char **urls;
    size_t count, capacity;
};

/* Whether the text holds anything to expand. */
bool url_list_is_pattern(const char *text);
/* Appends what the text stands for. At most DATASET_SHARDS_MAX in all, each shorter than
 * IO_PATH_BYTES_MAX. -EINVAL with detail: a variable is not set, too many or too long, nested too
 * deep; -ENOMEM. */
int url_list_expand(struct url_list *list, const char *text, struct err *err);
/* Appends the text as it is. */
int url_list_add(struct url_list *list, const char *url, struct err *err);
void url_list_deinit(struct url_list *list);

#endif
