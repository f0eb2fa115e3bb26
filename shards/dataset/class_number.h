/*
 * class_number — parses a `cls` member: a decimal class number, optionally followed by white
 * space.
 */
#ifndef MILLRACE_SHARDS_DATASET_CLASS_NUMBER_H
#define MILLRACE_SHARDS_DATASET_CLASS_NUMBER_H

#include <stddef.h>
#include <stdint.h>

enum { CLASS_NUMBER_BYTES_MAX = 32 }; /* longer members are invalid */

/* -EBADMSG: not a number, or not below classes_count; 0 (unknown) allows up to INT32_MAX. */
int class_number_parse(const void *data, size_t bytes, uint64_t classes_count, int32_t *ret_number);

#endif
