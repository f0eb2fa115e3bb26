/*
 * class_numbers — numbers the classes of a source by their names.
 */
#ifndef MILLRACE_CONVERT_SOURCE_CLASS_NUMBERS_H
#define MILLRACE_CONVERT_SOURCE_CLASS_NUMBERS_H

#include "base/name_set.h"
#include "convert/source/source.h"

/* Sets the classes of the source, and replaces each of the items' numbers in names (or
 * SOURCE_NO_CLASS) by its class: the name itself if all names are numbers, else its rank in byte
 * order. -ENOMEM. */
int class_numbers_set(struct source *source, const struct name_set *names, uint32_t *items,
                      uint64_t items_count, struct err *err);

#endif
