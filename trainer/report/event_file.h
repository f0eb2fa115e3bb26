/*
 * event_file — a file of TensorBoard's events: records, framed as TensorFlow's record writer frames
 * them.
 *
 *     offset  bytes  what
 *     0       8      bytes of the data, little-endian
 *     8       4      masked CRC32C of those 8 bytes
 *     12      n      data
 *     12 + n  4      masked CRC32C of the data
 *
 * Masked: the CRC turned right by 15 bits, plus 0xa282ead8. TensorBoard reads the files of a folder
 * in the order of their names, one after the other: each new file's name has a number (the time in
 * seconds) larger than all that are there, however the clock was set.
 *
 * Threads: one owner. Local files only.
 */
#ifndef MILLRACE_TRAINER_REPORT_EVENT_FILE_H
#define MILLRACE_TRAINER_REPORT_EVENT_FILE_H

#include "base/err.h"
#include "io/io.h"

struct event_file;

enum { EVENT_BYTES_MAX = 4096 };

/* Makes the folder, with its parents, and a new file in it. Gives the file. */
int event_file_open(struct io *io, const char *folder, struct event_file **ret_file,
                    struct err *err);
void event_file_close(struct event_file *file); /* NULL is fine */

/* Where the data of the next record is made: EVENT_BYTES_MAX bytes, the file's. */
void *event_file_data(struct event_file *file);
/* Adds a record of the first bytes of it. Blocks; allocates nothing. */
int event_file_add(struct event_file *file, size_t bytes, struct err *err);

#endif
