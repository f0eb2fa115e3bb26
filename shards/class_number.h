/*
 * class_number — what a `cls` member holds: the number of a class in decimal digits, and perhaps
 * white space behind it, as editors and other tools leave it.
 */
#ifndef MILLRACE_SHARDS_CLASS_NUMBER_H
#define MILLRACE_SHARDS_CLASS_NUMBER_H

#include <stddef.h>
#include <stdint.h>

enum { CLASS_NUMBER_BYTES_MAX = 32 }; /* of a member; what is longer is no number of a class */

/* classes_count: the number must be below it; 0 where it is not known, then it is at most
 * INT32_MAX. 0 or -EBADMSG. */
int class_number_parse(const void *data, size_t bytes, uint64_t classes_count, int32_t *ret_number);

#endif
