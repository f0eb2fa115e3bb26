/*
 * standard_input — copies standard input to a temporary file next to the target, because sources
 * are read more than once.
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

/* Reads fd until its end. target: the output, next to which the copy lies. stop: as in
 * convert_options. Free with standard_input_remove even after a failure. -EINTR: stopped; errors of
 * io transactions. Blocks. */
int standard_input_copy(struct standard_input *input, struct io *io, int fd, const char *target,
                        const atomic_int *stop, struct err *err);
void standard_input_remove(struct standard_input *input);

#endif
