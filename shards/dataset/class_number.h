/*
 * class_number — parses a `cls` member: a class number in decimal digits, optionally followed by
 * white space as editors and other tools leave it.
 */
#ifndef MILLRACE_SHARDS_DATASET_CLASS_NUMBER_H
#define MILLRACE_SHARDS_DATASET_CLASS_NUMBER_H

#include <stddef.h>
#include <stdint.h>

enum { CLASS_NUMBER_BYTES_MAX = 32 }; /* of a member; longer contents are not a class number */

/* The number must be below classes_count; if that is 0 (unknown), at most INT32_MAX. 0 or
 * -EBADMSG. */
int class_number_parse(const void *data, size_t bytes, uint64_t classes_count, int32_t *ret_number);

#endif
