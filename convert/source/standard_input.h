/*
 * standard_input — copies standard input to a temporary file next to the target, because sources
 * are read more than once. A stream of samples is not copied (sample_stream.h).
 */
#ifndef MILLRACE_CONVERT_SOURCE_STANDARD_INPUT_H
#define MILLRACE_CONVERT_SOURCE_STANDARD_INPUT_H

#include "io/io.h"

#include <stdatomic.h>

/* Zero-initialize. */
struct standard_input {
    struct io *io;
    struct io_transaction *transaction;
    const char *path; /* of the copy */
};

/* Waits for some bytes and reads them; 0: none are left. stop: as in convert_options. -EINTR:
 * stopped. Blocks. */
int standard_input_read_some(int fd, const atomic_int *stop, void *data, size_t bytes_max,
                             size_t *ret_bytes, struct err *err);
/* Reads so many bytes, or up to the end: *ret_bytes is then less. */
int standard_input_read(int fd, const atomic_int *stop, char *data, size_t bytes_max,
                        size_t *ret_bytes, struct err *err);

/* Copies the head, which was read already, and fd until its end. target: the output, next to which
 * the copy lies. stop: as in convert_options. Free with standard_input_remove even after a failure.
 * -EINTR: stopped; errors of io transactions. Blocks. */
int standard_input_copy(struct standard_input *input, struct io *io, const char *head,
                        size_t head_bytes, int fd, const char *target, const atomic_int *stop,
                        struct err *err);
void standard_input_remove(struct standard_input *input);

#endif
