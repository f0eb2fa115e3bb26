/*
 * tfrecord — the header of a record in a TFRecord file (source_tfrecord.c has the format).
 */
#ifndef MILLRACE_CONVERT_RECORD_TFRECORD_H
#define MILLRACE_CONVERT_RECORD_TFRECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { TFRECORD_HEADER_BYTES = 12 };

/* Whether a record with a right checksum of its length begins here. */
bool tfrecord_is_header(const uint8_t header[TFRECORD_HEADER_BYTES]);

#endif
