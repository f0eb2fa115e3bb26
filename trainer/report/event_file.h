/*
 * event_file — a TensorBoard event file: records in the framing of TensorFlow's record writer.
 *
 *     offset  bytes  content
 *     0       8      length of the data, little-endian
 *     8       4      masked CRC32C of those 8 bytes
 *     12      n      data
 *     12 + n  4      masked CRC32C of the data
 *
 * Masked: the CRC rotated right by 15 bits, plus 0xa282ead8. TensorBoard reads files in the order
 * of their names, so each new name contains a larger number (usually the time in seconds).
 *
 * Owner thread. Local files only.
 */
#ifndef MILLRACE_TRAINER_REPORT_EVENT_FILE_H
#define MILLRACE_TRAINER_REPORT_EVENT_FILE_H

#include "base/err.h"
#include "io/io.h"

struct event_file;

enum { EVENT_BYTES_MAX = 4096 };

/* Creates the folder, with its parents, and a new file in it. */
int event_file_open(struct io *io, const char *folder, struct event_file **ret_file,
                    struct err *err);
void event_file_close(struct event_file *file); /* NULL is fine */

/* Returns a buffer of EVENT_BYTES_MAX bytes for the next record. */
void *event_file_buffer(struct event_file *file);
/* Appends the first `bytes` bytes of that buffer as a record. Blocks; allocates nothing. */
int event_file_append(struct event_file *file, size_t bytes, struct err *err);

#endif
